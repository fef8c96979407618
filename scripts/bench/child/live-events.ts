import { sharedClockMs } from '../../shared-clock.js';
import type { Contender } from '../contenders/contender.js';
import type { Sample } from '../sample.js';
import { watchedKey } from './keys.js';
import { Stopwatch } from './stopwatch.js';

/** Length of the values that are watched, in bytes; the first eight of them tell when they were put. */
const VALUE_BYTES = 100;
const WRITES_IN_FLIGHT = 64;
/** Of so many events one is timed: to read the clock is not for nothing. */
const TIMED_SHARE = 8;

interface Measurement {
  readonly expected: number;
  readonly stopwatch: Stopwatch;
  readonly finish: (sample: Sample) => void;
  seen: number;
}

/** The watchers of one process, and what they see. */
export class LiveEvents {
  readonly #contender: Contender;
  #closers: (() => Promise<unknown>)[] = [];
  #measurement: Measurement | undefined;
  #measured: Promise<Sample> | undefined;

  constructor(contender: Contender) {
    this.#contender = contender;
  }

  async open(prefix: string, watchers: number): Promise<void> {
    const onEvent = (value: Uint8Array): void => this.#see(value);
    const targets =
      watchers === 1
        ? [{ prefix }]
        : Array.from({ length: watchers }, (_, index) => ({ key: watchedKey(prefix, index) }));
    this.#closers = await Promise.all(targets.map((target) => this.#contender.watch(target, onEvent)));
  }

  async close(): Promise<void> {
    await Promise.all(this.#closers.splice(0).map((close) => close()));
  }

  expect(expected: number): void {
    this.#measured = new Promise((finish) => {
      this.#measurement = { expected, stopwatch: new Stopwatch(), finish, seen: 0 };
    });
  }

  /** Resolves once all that were expected have come. */
  measured(): Promise<Sample> {
    return this.#measured ?? Promise.reject(new Error('no events are expected'));
  }

  #see(value: Uint8Array): void {
    const measurement = this.#measurement;
    if (measurement === undefined) return;
    if (measurement.seen % TIMED_SHARE === 0) {
      measurement.stopwatch.lap(sharedClockMs() - new DataView(value.buffer, value.byteOffset).getFloat64(0));
    }
    measurement.seen += 1;
    if (measurement.seen === measurement.expected) measurement.finish(measurement.stopwatch.sample(measurement.seen));
  }
}

/** Puts of one event each, over the keys of all watchers in turn. */
export async function writeEvents(contender: Contender, prefix: string, events: number, keys: number): Promise<void> {
  let made = 0;
  const loop = async (): Promise<void> => {
    while (made < events) {
      const key = watchedKey(prefix, made++ % keys);
      const value = Buffer.alloc(VALUE_BYTES);
      value.writeDoubleBE(sharedClockMs());
      await contender.put(key, value);
    }
  };
  await Promise.all(Array.from({ length: WRITES_IN_FLIGHT }, loop));
}
