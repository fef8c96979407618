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
} from '../../src/locks.js';
import { Etcd3Mutex } from '../../src/recipes.js';

/** A common interface of the locks, elections and semaphores that have one holder at a time. */
export interface Exclusive {
  readonly take: (session: Session, name: string, options?: WaitOptions) => Promise<Held | ReentrantHeld>;
  /** The prefix of the queue keys. */
  readonly queue: (name: string) => string;
  /**
   * The number of events that the server sends when one holder passes the lock to the next holder, in addition to the
   * event that wakes the next holder.
   */
  readonly furtherEvents: number;
}

const underName = (name: string): string => `${name}/`;

/** All kinds of locks, elections and semaphores that have one holder at a time. */
export const EXCLUSIVES = {
  Mutex: {
    take: (session, name, options) => new Mutex(session, name).lock(options),
    queue: underName,
    furtherEvents: 0,
  },
  Etcd3Mutex: {
    take: (session, name, options) => new Etcd3Mutex(session, name).lock(options),
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
    // Waiters queue for an internal lock of the semaphore. A waiter that acquires the permit passes this lock to the
    // next waiter, which causes one more event.
    furtherEvents: 1,
  },
} as const satisfies Record<string, Exclusive>;

export type ExclusiveName = keyof typeof EXCLUSIVES;
