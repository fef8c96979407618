import { replaceEnvironment } from '../../src/base/environment.js';

/** The monotonic clock at the start of a history, in milliseconds. Not 0, so that code that assumes 0 fails. */
const START_MS = 1_000;
const START_WALL_MS = 1_700_000_000_000;
/** Multiplied with a counter, this odd number gives different 64-bit numbers. */
const SPREAD = 0x9e3779b97f4a7c15n;

/** The party of an event that concerns all parties, such as the passing of time. */
const ALL = 'all';
export const SERVER = 'server';

/** Something that may happen next. */
export interface Event {
  /** The name of the event. A history with the same earlier events gives the same name to the same event. */
  readonly label: string;
  /** What the event changes: the state of one client, of the server, or `ALL`. */
  readonly at: string;
  /** Whether an event at the server only reads the store. */
  readonly reads?: boolean;
  /** Whether the event is a fault, of which a history has at most a given number. */
  readonly isFault?: boolean;
  readonly action: () => void;
}

/** Whether both orders of two events lead to the same state. */
export function areIndependent(a: Event, b: Event): boolean {
  if (a.isFault || b.isFault || a.at === ALL || b.at === ALL) return false;
  return a.at !== b.at || (a.reads === true && b.reads === true);
}

interface Message extends Event {
  /** Whether time may pass, and a history may end, before the message arrives. */
  readonly isLate: boolean;
}

interface Timer {
  readonly dueMs: number;
  readonly party: string;
  readonly action: () => void;
}

/**
 * A world without real time and real messages, in which the code of `src/` runs. The user of the world decides which
 * event happens next. After each event, all promise callbacks must run before the next one.
 */
export class World {
  /** The party whose code is running. */
  party = ALL;
  #nowMs = START_MS;
  #random = 0n;
  /** The timers in the order of their starts. */
  readonly #timers = new Set<Timer>();
  /** The messages that are on their way. Those of a channel arrive in their order. */
  readonly #channels = new Map<string, Message[]>();
  /** How often each label was given. */
  readonly #labels = new Map<string, number>();
  /** Functions that return the faults that may happen now. */
  readonly #faults: (() => readonly Event[])[] = [];
  /** The parties that no longer run: their processes were killed. */
  readonly #killed = new Set<string>();

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Makes the code in `src/` use this world. Returns a function that restores the former environment. */
  install(): () => void {
    return replaceEnvironment({
      performance: { now: () => this.#nowMs },
      Date: { now: () => START_WALL_MS + this.#nowMs },
      bootMs: () => this.#nowMs,
      // Every delay is half of its maximum.
      Math: { random: () => 0.5 },
      crypto: {
        getRandomValues: (numbers) => {
          for (let index = 0; index < numbers.length; index += 1) numbers[index] = ++this.#random * SPREAD;
          return numbers;
        },
      },
      setTimeout: (action, delayMs) => this.#startTimer(action, delayMs),
      clearTimeout: (timer) => void this.#timers.delete(timer as Timer),
      setImmediate: (action) => this.#startTimer(action, 0),
    });
  }

  /** Returns the text, with a number if this world has given the text before. */
  labelOf(text: string): string {
    const count = (this.#labels.get(text) ?? 0) + 1;
    this.#labels.set(text, count);
    return count === 1 ? text : `${text} ${count}`;
  }

  /** Runs code of a party. */
  as<T>(party: string, run: () => T): T {
    const before = this.party;
    this.party = party;
    try {
      return run();
    } finally {
      this.party = before;
    }
  }

  /** Sends a message. Returns a function that loses it. */
  send(channel: string, event: Event, isLate = false): () => void {
    const message = { ...event, isLate };
    const queue = this.#channels.get(channel) ?? [];
    this.#channels.set(channel, queue);
    queue.push(message);
    return () => this.#remove(channel, message);
  }

  /** Adds a function that returns the faults that may happen now. */
  addFaults(faults: () => readonly Event[]): void {
    this.#faults.push(faults);
  }

  /** Ends a party as if its process were killed. Messages that it has sent stay on their way. */
  kill(party: string): void {
    this.#killed.add(party);
    for (const timer of this.#timers) if (timer.party === party) this.#timers.delete(timer);
  }

  isKilled(party: string): boolean {
    return this.#killed.has(party);
  }

  /**
   * Returns the events that may happen next. Time passes only when no message is on its way: if a message is slower than
   * a timer, that is a fault.
   */
  events(withFaults: boolean): readonly Event[] {
    const messages = [...this.#channels].flatMap(([channel, [first]]): Message[] => {
      if (first === undefined || this.#killed.has(first.at)) return [];
      return [{ ...first, action: () => this.#arrive(channel, first) }];
    });
    const timer = this.#firstTimer();
    const isQuiet = messages.every(({ isLate }) => isLate);
    const time: Event[] =
      timer === undefined || (!isQuiet && !withFaults)
        ? []
        : [
            {
              label: isQuiet ? `${timer.dueMs - START_MS} ms` : `messages are slower than ${timer.dueMs - START_MS} ms`,
              at: ALL,
              isFault: !isQuiet,
              action: () => this.#fire(timer),
            },
          ];
    const faults = withFaults ? this.#faults.flatMap((each) => each()) : [];
    return isQuiet ? [...time, ...messages, ...faults] : [...messages, ...time, ...faults];
  }

  /** The timers of parties that still run, for the check that nothing is left. */
  get timers(): readonly string[] {
    return [...this.#timers].map(({ party, dueMs }) => `${party} at ${dueMs - START_MS} ms`);
  }

  #remove(channel: string, message: Message): void {
    const queue = (this.#channels.get(channel) ?? []).filter((each) => each !== message);
    if (queue.length > 0) this.#channels.set(channel, queue);
    else this.#channels.delete(channel);
  }

  #arrive(channel: string, message: Message): void {
    this.#remove(channel, message);
    this.party = message.at;
    message.action();
  }

  #startTimer(action: () => void, delayMs: number): Timer {
    const timer = { dueMs: this.#nowMs + Math.max(0, delayMs), party: this.party, action };
    if (!this.#killed.has(this.party)) this.#timers.add(timer);
    return timer;
  }

  #firstTimer(): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) if (first === undefined || timer.dueMs < first.dueMs) first = timer;
    return first;
  }

  #fire(timer: Timer): void {
    this.#timers.delete(timer);
    this.#nowMs = Math.max(this.#nowMs, timer.dueMs);
    this.party = timer.party;
    timer.action();
  }
}
