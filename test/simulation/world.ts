import { type Environment, replaceEnvironment } from '../../src/base/environment.js';
import { type Due, EventQueue } from './event-queue.js';
import { type OtherClock, type PendingTimer, Process, ROUNDING_MS, START_MS } from './process.js';
import type { Random } from './random.js';

/** The time of the wall clock at the start of a world, in milliseconds since 1970. */
export const START_WALL_MS = 1_700_000_000_000;
/** Number of events that run before Node.js may handle real input and output again. */
const EVENTS_PER_BATCH = 64;

/** Something that will happen: a timer fires, a message arrives, or a fault strikes. */
interface Scheduled extends Due {
  due: number;
  readonly process: Process;
  readonly kind: string;
  readonly detail: string;
  readonly action: () => void;
  isCanceled: boolean;
}

/** A timer of the code in `src/`, as `environment.setTimeout` returns it. */
class Timer implements PendingTimer {
  event: Scheduled;
  readonly stack: string | undefined;

  constructor(event: Scheduled, stack: string | undefined) {
    this.event = event;
    this.stack = stack;
  }

  unref(): void {
    this.event.process.foreground.delete(this);
  }
}

/** One line of a trace. */
export interface TraceLine {
  readonly ms: number;
  readonly process: string;
  readonly text: string;
}

/**
 * A world in which all time is simulated. It owns the clocks, timers and random numbers of the code in `src/`, and runs
 * one event at a time. Between two events, all promise callbacks run, so each event is complete before the next one
 * begins. If several events are due at the same time, a random number decides which one is first.
 */
export class World {
  readonly random: Random;
  /** The process of the server and of the network. */
  readonly outside = new Process('server');
  /** The process whose code is running. */
  current: Process = this.outside;
  /** The simulated time in milliseconds. It starts at `START_MS`. */
  now = START_MS;
  /** The number of events that have run. */
  events = 0;
  /** A hash of everything that has happened. */
  hash = 0x811c9dc5;
  /** The steps, if the world records them. */
  readonly trace: TraceLine[] | undefined;
  /** Errors that no code has handled. */
  readonly unhandled: unknown[] = [];
  /** How much later than due a timer may fire, in milliseconds. */
  timerLagMs = 0;
  readonly #queue = new EventQueue<Scheduled>();
  readonly #startTask: (task: () => void) => void;
  #bitsUsed = 0;

  /** `startTask` runs a function in a new task, after all promise callbacks. Default: `setImmediate`. */
  constructor(
    random: Random,
    options: { readonly isTraced?: boolean; readonly startTask?: (task: () => void) => void } = {},
  ) {
    this.random = random;
    this.trace = options.isTraced ? [] : undefined;
    this.#startTask = options.startTask ?? setImmediate;
  }

  /** The time for the running process. It is later than `now` if the process was stopped in the middle of an event. */
  get time(): number {
    return Math.max(this.now, this.current.reached);
  }

  /** Records a step of the running process. */
  note(text: string): void {
    this.#digest(text);
    this.trace?.push({ ms: this.time - START_MS, process: this.current.name, text });
  }

  /** Schedules an event of `process`. Returns a function that cancels the event. */
  at(due: number, process: Process, kind: string, detail: string, action: () => void): () => void {
    const event = this.#schedule(due, process, kind, detail, action);
    return () => {
      event.isCanceled = true;
    };
  }

  /** Runs `action` as an event of `process`, now. */
  soon(process: Process, kind: string, action: () => void): void {
    this.#schedule(this.time, process, kind, '', action);
  }

  /**
   * Suspends the machine of a process: the code of the process does not run, and its monotonic clock and its timers
   * stand still. The wall clock and the boot clock go on, except the one in `alsoStops`.
   */
  suspend(process: Process, ms: number, alsoStops?: OtherClock): void {
    // A process that was stopped in the middle of an event has already seen the time `reached`.
    const fromMs = Math.max(this.now, process.reached);
    process.resumesAt = fromMs + ms;
    process.suspensions.push({ fromMs, untilMs: process.resumesAt });
    process.reached = process.resumesAt;
    process.leapedAt = process.resumesAt;
    process.stalledUntil = Math.max(process.stalledUntil, process.resumesAt);
    // Adds slightly less than `ms`, so that a rounding error never sets the monotonic clock back.
    process.suspendedMs += ms - ROUNDING_MS;
    if (alsoStops === 'wall') process.wallOffsetMs -= Math.round(ms * process.rate);
    if (alsoStops === 'boot') process.bootOffsetMs -= ms * process.rate;
    this.note(`the machine of ${process.name} is suspended for ${ms} ms`);
  }

  /** Resolves after `ms`, in the running process. */
  sleep(ms: number): Promise<void> {
    const process = this.current;
    return new Promise((resolve) => void this.#schedule(this.time + ms, process, 'wakes up', '', resolve));
  }

  /**
   * Runs events until `isDone` returns true, no event is left, or the time reaches `untilMs`. Returns whether `isDone`
   * has returned true.
   */
  run(isDone: () => boolean, untilMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      let isOver = false;
      const finish = (done: boolean): void => {
        isOver = true;
        this.current = this.outside;
        resolve(done);
      };
      const step = (): void => {
        if (isOver) return;
        if (isDone()) return finish(true);
        const next = this.#pop(untilMs);
        if (next === undefined) return finish(false);
        this.#perform(next);
      };
      // The runtime runs all promise callbacks, and reports unhandled rejections, before the next task.
      const batch = (): void => {
        step();
        if (isOver) return;
        for (let index = 1; index < EVENTS_PER_BATCH; index += 1) this.#startTask(step);
        this.#startTask(batch);
      };
      this.#startTask(batch);
    });
  }

  /** Makes the code in `src/` use this world, in Node.js. Returns a function that restores the former environment. */
  install(): () => void {
    const onUnhandled = (reason: unknown): void => {
      this.unhandled.push(reason);
      this.note(`unhandled rejection: ${String(reason)}`);
    };
    const others = process.listeners('unhandledRejection');
    process.removeAllListeners('unhandledRejection');
    process.on('unhandledRejection', onUnhandled);
    const restore = replaceEnvironment(this.environment());
    return () => {
      restore();
      process.removeListener('unhandledRejection', onUnhandled);
      for (const listener of others) process.on('unhandledRejection', listener);
    };
  }

  /** Returns the clocks, timers and random numbers of this world. */
  environment(): Environment {
    return {
      performance: { now: () => this.current.monotonicAt(this.#readTime()) },
      Date: {
        now: () => START_WALL_MS + Math.floor(this.current.clockAt(this.#readTime())) + this.current.wallOffsetMs,
      },
      bootMs: () => this.current.clockAt(this.time) + this.current.bootOffsetMs,
      Math: { random: () => this.random.fraction() },
      crypto: {
        getRandomValues: (numbers) => {
          // The counter makes the numbers unique, as 64 random bits are.
          for (let index = 0; index < numbers.length; index += 1)
            numbers[index] = (this.random.bits64() & ~0xffffn) | BigInt(++this.#bitsUsed & 0xffff);
          return numbers;
        },
      },
      setTimeout: (action, delayMs) => this.#startTimer(action, delayMs),
      clearTimeout: (timer) => {
        if (!(timer instanceof Timer)) return;
        timer.event.isCanceled = true;
        timer.event.process.foreground.delete(timer);
      },
      setImmediate: (action) => this.soon(this.current, 'immediate', action),
    };
  }

  #startTimer(action: () => void, delayMs: number): Timer {
    const process = this.current;
    const lagMs = this.timerLagMs > 0 && this.random.chance(0.3) ? this.random.fraction() * this.timerLagMs : 0;
    const schedule = (due: number): Scheduled => {
      const { suspendedMs } = process;
      return this.#schedule(due, process, 'timer', '', () => {
        // The timer stood still as long as the machine was suspended.
        const stoodStillMs = process.suspendedMs - suspendedMs;
        if (stoodStillMs > 0 && due + stoodStillMs > this.now) {
          timer.event = schedule(due + stoodStillMs + ROUNDING_MS);
          return;
        }
        process.foreground.delete(timer);
        action();
      });
    };
    const due = this.time + process.worldMs(Math.max(0, delayMs)) + lagMs;
    const timer: Timer = new Timer(schedule(due), this.trace && new Error('started').stack);
    process.foreground.add(timer);
    return timer;
  }

  /** Returns the time for the running process when it reads a clock. The fault `stop in a step` may strike. */
  #readTime(): number {
    const { current } = this;
    const { stop } = current;
    if (stop !== undefined && --stop.reads <= 0) {
      current.stop = undefined;
      if (stop.suspends !== undefined) this.suspend(current, stop.ms, stop.suspends.alsoStops);
      else {
        current.lastStop = { fromMs: this.time, untilMs: this.time + stop.ms };
        current.reached = current.lastStop.untilMs;
        current.stalledUntil = current.reached;
        // If the process has read one clock before the stop and reads another one after it, the second one has leapt.
        current.leapedAt = current.reached;
        this.note(`is stopped in the middle of a step for ${stop.ms} ms`);
      }
    }
    return this.time;
  }

  #perform(event: Scheduled): void {
    const { process, kind, detail } = event;
    this.now = Math.max(this.now, event.due);
    this.current = process;
    this.events += 1;
    this.#digest(kind);
    this.#digest(detail);
    this.#digestNumber(this.now);
    if (process.end !== undefined && process.end.events-- === 0) {
      process.end.kill();
      return;
    }
    if (this.trace !== undefined && kind !== 'timer' && kind !== 'wakes up')
      this.trace.push({ ms: this.now - START_MS, process: process.name, text: `${kind}${detail && ` ${detail}`}` });
    try {
      event.action();
    } catch (error) {
      this.unhandled.push(error);
      this.note(`uncaught exception: ${String(error)}`);
    }
  }

  #digest(text: string): void {
    let { hash } = this;
    for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
    this.hash = hash >>> 0;
  }

  #digestNumber(value: number): void {
    this.hash = Math.imul(this.hash ^ Math.floor(value * 1_024), 0x01000193) >>> 0;
  }

  #schedule(due: number, process: Process, kind: string, detail: string, action: () => void): Scheduled {
    const event = { due, order: this.random.next(), process, kind, detail, action, isCanceled: false };
    this.#queue.push(event);
    return event;
  }

  /** Returns the first event that may run. Postpones the events of stalled processes. */
  #pop(untilMs: number): Scheduled | undefined {
    for (;;) {
      const { first } = this.#queue;
      if (first === undefined || (first.due > untilMs && !first.isCanceled)) return undefined;
      this.#queue.removeFirst();
      if (first.isCanceled || first.process.isKilled) continue;
      const { stalledUntil } = first.process;
      if (stalledUntil <= first.due || stalledUntil <= this.now) return first;
      first.due = stalledUntil;
      this.#queue.push(first);
    }
  }
}
