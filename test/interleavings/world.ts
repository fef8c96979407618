import { replaceEnvironment } from '../../src/base/environment.js';

/** The monotonic clock at the start of a history, in milliseconds. Not 0, so that code that assumes 0 fails. */
const START_MS = 1_000;
const START_WALL_MS = 1_700_000_000_000;
/** How often code may read the clock after one event. Code that reads it more often runs without end. */
const MAX_CLOCK_READS = 10_000;
/** Multiplied with a counter, this odd number gives different 64-bit numbers. */
const SPREAD = 0x9e3779b97f4a7c15n;

/** Where time passes. All events read the time, except requests that arrive late and change nothing for a party. */
export const TIME = 'time';
export const SERVER = 'server';
/** The beginning of the labels of faults: messages that are slower than a timer. */
export const SLOWER = 'messages are slower than ';

/** Something that may happen next. */
export interface Event {
  /** The name of the event. A history with the same earlier events gives the same name to the same event. */
  readonly label: string;
  /** The party whose code the event runs, or `SERVER`, or `TIME`. */
  readonly at: string;
  /** Whether time may pass, and the parties may end, before this event. */
  readonly isLate?: boolean;
  /** The message that arrives with this event. */
  readonly carries?: Carried | undefined;
  readonly action: () => void;
}

/** A request, or the answer to a request. */
export interface Carried {
  readonly method: { readonly path: string; readonly request: Named; readonly response: Named };
  readonly request: unknown;
  readonly answer?: unknown;
}

interface Named {
  readonly typeName: string;
}

/** A fault, or a decision of a program such as a cancellation. It happens only in histories that plan it. */
export interface Unplanned {
  readonly label: string;
  readonly isFault: boolean;
}

/**
 * How an event touches something. Two events that change different parts of it can change places, and so can two events
 * that read it. `write` changes all of it.
 */
type Touch = 'read' | 'part' | 'write';

/** What an event has read or written: the state of a party, of the server, or of a judge. */
export type Touched = Readonly<Record<string, Touch>>;

/**
 * What an arriving request touches, and an event after which the request may arrive later than time passes: the end of
 * its call, or of its party.
 */
export function wayOf(what: string): string {
  return `way of ${what}`;
}

/** Whether both orders of two events lead to the same state. */
export function areIndependent(a: Touched, b: Touched): boolean {
  return Object.keys(a).every((what) => b[what] === undefined || (a[what] === b[what] && a[what] !== 'write'));
}

interface Message extends Omit<Event, 'isLate'> {
  /** The party that has sent a message to the server. */
  readonly from?: string;
  readonly isLate?: () => boolean;
}

interface Timer {
  /** The party, when the timer is due, and a number if the party has several timers that are due then. */
  readonly label: string;
  readonly dueMs: number;
  readonly party: string;
  readonly action: () => void;
}

/**
 * A world without real time and real messages, in which the code of `src/` runs. The user of the world decides which
 * event happens next. After each event, all promise callbacks must run before the next one.
 */
export class World {
  /** The planned faults and decisions that have happened. */
  readonly struck: string[] = [];
  /** The faults and decisions that could have happened, by their labels. */
  readonly possible = new Map<string, Unplanned>();
  /** The party whose code is running. */
  party = TIME;
  #nowMs = START_MS;
  /** How often code has read the clock since the last event. */
  #clockReads = 0;
  #touched: Record<string, Touch> = {};
  readonly #discards = new Set<string>();
  /** The timers in the order of their starts. */
  readonly #timers = new Set<Timer>();
  /** The messages that are on their way. Those of a channel arrive in their order. */
  readonly #channels = new Map<string, Message[]>();
  /** How often each label was given. */
  readonly #labels = new Map<string, number>();
  /** Whether faults and decisions may happen now. */
  isUnsafe = false;
  readonly #plan: ReadonlySet<string>;
  /** Functions that return the faults and decisions that may happen now. */
  readonly #sources: (() => readonly (Event & Unplanned)[])[] = [];
  /** The parties that no longer run: their processes were killed. */
  readonly #killed = new Set<string>();
  /** The parties that run the timers which came due while they stood still. */
  readonly #catchingUp = new Set<string>();
  /** The times between which the parties that stand still must go on. */
  readonly #frozen = new Map<string, { readonly fromMs: number; readonly untilMs: number }>();

  /** @param plan The labels of the faults and decisions that happen. */
  constructor(plan: readonly string[]) {
    this.#plan = new Set(plan);
  }

  /** The milliseconds since the start of the history. */
  get elapsedMs(): number {
    return this.#nowMs - START_MS;
  }

  get nowMs(): number {
    this.touch(TIME, 'read');
    return this.#nowMs;
  }

  /** Makes the code in `src/` use this world. Returns a function that restores the former environment. */
  install(): () => void {
    return replaceEnvironment({
      performance: { now: () => this.#readClock() },
      Date: { now: () => START_WALL_MS + this.#nowMs },
      bootMs: () => this.#nowMs,
      // Every delay is half of its maximum.
      Math: { random: () => 0.5 },
      crypto: {
        getRandomValues: (numbers) => {
          for (let index = 0; index < numbers.length; index += 1) numbers[index] = this.#random();
          return numbers;
        },
      },
      setTimeout: (action, delayMs) => this.#startTimer(action, delayMs),
      clearTimeout: (timer) => {
        if (this.#timers.delete(timer as Timer)) this.#touchTimer((timer as Timer).dueMs);
      },
      setImmediate: (action) => this.#startTimer(action, 0),
    });
  }

  #readClock(): number {
    this.#clockReads += 1;
    if (this.#clockReads > MAX_CLOCK_READS) throw new Error(`the code of ${this.party} runs in a loop without a wait`);
    return this.#nowMs;
  }

  /** Notes what the code that runs now reads or writes. */
  touch(what: string, how: Touch): void {
    const before = this.#touched[what] ?? how;
    this.#touched[what] = before === how ? how : 'write';
  }

  /** Returns what the code has touched since the last call. */
  takeTouched(): Touched {
    const touched = this.#touched;
    this.#touched = {};
    return touched;
  }

  /** Notes that a party will not receive a message that is sent now, because of an earlier event. */
  discard(party: string): void {
    this.#discards.add(party);
  }

  /** Returns the parties that `discard` has named since the last call. */
  takeDiscards(): readonly string[] {
    const parties = [...this.#discards];
    this.#discards.clear();
    return parties;
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

  /** Returns a number that depends only on the party and on how many numbers it has drawn before. */
  #random(): bigint {
    const drawn = this.labelOf(`random of ${this.party}`);
    let number = 0n;
    for (const letter of drawn) number = (number * 131n + BigInt(letter.charCodeAt(0))) * SPREAD;
    return BigInt.asUintN(64, number);
  }

  /**
   * Offers a fault or a decision, which is possible now. Returns whether the history takes it: the history plans it, and
   * it has not happened yet.
   */
  offer(label: string, isFault = true): boolean {
    if (!this.isUnsafe) return false;
    if (!this.possible.has(label)) this.possible.set(label, { label, isFault });
    return this.#plan.has(label) && !this.struck.includes(label);
  }

  /** Offers a fault like `offer`. If the history takes it, the fault has happened. */
  take(label: string): boolean {
    const isTaken = this.offer(label);
    if (isTaken) this.struck.push(label);
    return isTaken;
  }

  /** When the timer fires that messages are planned to be slower than, if they have not been so far. */
  get #slowDueMs(): number | undefined {
    const label = this.isUnsafe ? this.missing.find((each) => each.startsWith(SLOWER)) : undefined;
    return label === undefined ? undefined : START_MS + Number(/timer, (\d+) ms/.exec(label)?.[1]);
  }

  /** The planned faults and decisions that have not happened yet. */
  get missing(): readonly string[] {
    return [...this.#plan].filter((label) => !this.struck.includes(label));
  }

  /** Sends a message. Returns a function that loses it. `isLate` returns whether time may pass before it arrives. */
  send(channel: string, message: Message): () => void {
    if (this.#killed.has(message.at)) this.discard(message.at);
    if (message.isLate?.() !== true) this.touch(TIME, 'read');
    const queue = this.#channels.get(channel) ?? [];
    this.#channels.set(channel, queue);
    queue.push(message);
    return () => this.#remove(channel, message);
  }

  /** Adds a function that returns the faults and decisions that may happen now. */
  addSource(source: () => readonly (Event & Unplanned)[]): void {
    this.#sources.push(source);
  }

  /** Ends a party as if its process were killed. Messages that it has sent stay on their way. */
  kill(party: string): void {
    this.#killed.add(party);
    for (const timer of this.#timers) if (timer.party === party) this.#timers.delete(timer);
    this.touch(wayOf(party), 'write');
    this.#touchTimer();
  }

  /** Notes that a timer starts or stops. A planned delay of messages depends on the timers that are due by then. */
  #touchTimer(dueMs = 0): void {
    const slowDueMs = this.#slowDueMs;
    if (slowDueMs !== undefined && dueMs <= slowDueMs) this.touch('clock', 'write');
    this.touch(TIME, 'read');
  }

  /** Stops a process, until an event lets it go on, at least `minMs` and at most `maxMs` later. */
  freeze(party: string, minMs: number, maxMs: number): void {
    this.#frozen.set(party, { fromMs: this.#nowMs + minMs, untilMs: this.#nowMs + maxMs });
    this.#touchTimer();
  }

  isKilled(party: string): boolean {
    return this.#killed.has(party);
  }

  /**
   * Returns the events that may happen next. Time passes only when no message that is in time is on its way: if such a
   * message is slower than a timer, that is a fault. After the end of all parties, no time passes.
   */
  events(hasEnded: boolean): readonly Event[] {
    const first = this.#firstTimers;
    const later = first.filter(({ dueMs }) => dueMs > this.#nowMs);
    const messages = this.#messages();
    const pending = [...messages, ...this.#dueTimers(first), ...this.#thaws];
    const inTime = pending.filter(({ isLate }) => !isLate);
    const late = pending.filter(({ isLate }) => isLate);
    const planned: Event[] = this.#sources
      .flatMap((each) => each())
      .filter(({ label, isFault }) => this.offer(label, isFault))
      .map((event) => ({ ...event, isLate: true }));
    if (inTime.length === 0) return [...(hasEnded ? [] : this.#passage(later)), ...late, ...planned];
    if (hasEnded || messages.every(({ isLate }) => isLate)) return [...inTime, ...late, ...planned];
    // In another order of events, other timers may be the next ones.
    for (const timer of later) this.offer(SLOWER + timer.label);
    // For the other parties, only a little time passes: they have no timer that is due before.
    const nextMs = Math.min(...later.map(({ dueMs }) => dueMs));
    const next = later.filter(({ dueMs }) => dueMs === nextMs);
    const slow = next.map((timer): Event => {
      const action = (): void => {
        this.touch('clock', 'write');
        this.#nowMs = timer.dueMs;
        this.#fire(timer);
      };
      return { label: SLOWER + timer.label, at: timer.party, action };
    });
    return [...inTime, ...late, ...planned, ...slow.filter(({ label }) => this.offer(label))];
  }

  /** The timers of parties that still run, for the check that nothing is left. */
  get timers(): readonly string[] {
    return [...this.#timers].map(({ party, dueMs }) => `${party} at ${dueMs - START_MS} ms`);
  }

  /** The passing of time, until the first of these timers is due, or a party that stands still may or must go on. */
  #passage(timers: readonly Timer[]): readonly Event[] {
    const changes = [...this.#frozen.values()].flatMap(({ fromMs, untilMs }) => [fromMs, untilMs]);
    const times = [...changes, ...timers.map(({ dueMs }) => dueMs)].filter((time) => time > this.#nowMs);
    const nextMs = Math.min(...times);
    const action = (): void => {
      this.#nowMs = nextMs;
    };
    return times.length === 0 ? [] : [{ label: `${nextMs - START_MS} ms have passed`, at: TIME, action }];
  }

  /** The timers that are due. */
  #dueTimers(timers: readonly Timer[]): readonly Event[] {
    const due = timers.filter(({ dueMs }) => dueMs <= this.#nowMs);
    return due.map((timer) => {
      const action = (): void => {
        // The event loop runs the timers that came due while their party stood still together, between two messages.
        if (timer.dueMs < this.#nowMs) this.#catchingUp.add(timer.party);
        this.#fire(timer);
      };
      return { label: timer.label, at: timer.party, action };
    });
  }

  /** The messages that may arrive. */
  #messages(): readonly Event[] {
    for (const party of this.#catchingUp)
      if ([...this.#timers].every((timer) => timer.party !== party || timer.dueMs >= this.#nowMs))
        this.#catchingUp.delete(party);
    return [...this.#channels].flatMap(([channel, [first]]): Event[] => {
      if (first === undefined || !this.runs(first.at) || this.#catchingUp.has(first.at)) return [];
      return [{ ...first, isLate: first.isLate?.() === true, action: () => this.#arrive(channel, first) }];
    });
  }

  /** The parties that stand still and may go on. Time may pass before, until a party must go on. */
  get #thaws(): readonly Event[] {
    return [...this.#frozen].flatMap(([party, { fromMs, untilMs }]): Event[] => {
      const action = (): void => void this.#frozen.delete(party);
      const isLate = this.#nowMs < untilMs;
      return this.#nowMs < fromMs ? [] : [{ label: `${party} goes on`, at: party, isLate, action }];
    });
  }

  /** Whether the process of a party runs: it was not killed, and does not stand still. */
  runs(party: string): boolean {
    return !this.#killed.has(party) && !this.#frozen.has(party);
  }

  #remove(channel: string, message: Message): void {
    const queue = (this.#channels.get(channel) ?? []).filter((each) => each !== message);
    if (queue.length > 0) this.#channels.set(channel, queue);
    else this.#channels.delete(channel);
  }

  /** Lets an event happen. */
  run(event: Event): void {
    if (this.#plan.has(event.label)) this.struck.push(event.label);
    this.party = event.at;
    this.#clockReads = 0;
    // What else an event at the server touches depends on the request.
    this.touch(event.at, event.at === SERVER ? 'part' : 'write');
    if (event.at !== TIME && !(event.at === SERVER && event.isLate)) this.touch(TIME, 'read');
    event.action();
  }

  #arrive(channel: string, message: Message): void {
    this.#remove(channel, message);
    if (message.from !== undefined) this.touch(wayOf(message.from), 'read');
    this.touch(wayOf(message.label), 'write');
    message.action();
  }

  #startTimer(action: () => void, delayMs: number): Timer {
    const dueMs = this.#nowMs + Math.max(0, delayMs);
    const label = this.labelOf(`${this.party}: timer, ${dueMs - START_MS} ms`);
    const timer = { label, dueMs, party: this.party, action };
    if (!this.#killed.has(this.party)) this.#timers.add(timer);
    this.#touchTimer(dueMs);
    return timer;
  }

  /** The timer of each party that runs which is due first. */
  get #firstTimers(): readonly Timer[] {
    const first = new Map<string, Timer>();
    for (const timer of this.#timers) {
      const other = first.get(timer.party);
      if (this.runs(timer.party) && (other === undefined || timer.dueMs < other.dueMs)) first.set(timer.party, timer);
    }
    return [...first.values()];
  }

  #fire(timer: Timer): void {
    this.#timers.delete(timer);
    this.party = timer.party;
    if (timer.party === SERVER) this.touch(SERVER, 'write');
    timer.action();
  }
}
