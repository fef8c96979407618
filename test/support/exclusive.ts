import {
  Election,
  type Held,
  Mutex,
  type ReentrantHeld,
  ReentrantMutex,
  RWMutex,
  Semaphore,
  type Session,
  type WaitOptions,
} from '../../src/concurrency/index.js';

/** One way to have something alone, whatever the primitive. */
export interface Exclusive {
  readonly take: (session: Session, name: string, options?: WaitOptions) => Promise<Held | ReentrantHeld>;
  /** Under which prefix those stand that wait or hold. */
  readonly queue: (name: string) => string;
  /** Events that the server sends for one hand-off beside the one that wakes the next holder. */
  readonly furtherEvents: number;
}

const underName = (name: string): string => `${name}/`;

/** All primitives under which one holds at a time. */
export const EXCLUSIVES = {
  Mutex: {
    take: (session, name, options) => new Mutex(session, name).lock(options),
    queue: underName,
    furtherEvents: 0,
  },
  ReentrantMutex: {
    take: (session, name, options) => new ReentrantMutex(session, name).lock({}, options),
    queue: underName,
    furtherEvents: 0,
  },
  'writers of an RWMutex': {
    take: (session, name, options) => new RWMutex(session, name).lock(options),
    queue: underName,
    furtherEvents: 0,
  },
  Election: {
    take: (session, name, options) => new Election(session, name).campaign('me', options),
    queue: underName,
    furtherEvents: 0,
  },
  'a Semaphore of one permit': {
    take: (session, name, options) => new Semaphore(session, name, 1).acquire(options),
    queue: underName,
    // The one behind at the gate comes to its head.
    furtherEvents: 1,
  },
} as const satisfies Record<string, Exclusive>;

export type ExclusiveName = keyof typeof EXCLUSIVES;
