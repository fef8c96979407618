import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import type { WatchBatch } from '../../src/index.js';
import type { SeenEvent } from '../../src/testing/index.js';

interface EtcdctlEvent {
  /** Left out for a put. */
  readonly type?: number;
  readonly kv: { readonly key: string; readonly value?: string; readonly mod_revision: number };
}

/**
 * What happens under a prefix, as etcdctl's watch tells of it: it shares no code with this client. etcd itself loses and
 * repeats events before 3.4.42, 3.5.28 and 3.6.9.
 */
export class Truth {
  readonly #process: ChildProcess;
  readonly #events: SeenEvent[] = [];
  readonly #collected: Promise<void>;

  /** `last` is the key whose first event ends the collection. */
  constructor(etcdctl: string, endpoints: readonly string[], prefix: string, last: string) {
    const args = ['--endpoints', endpoints.join(','), 'watch', '--rev=1', '--prefix', prefix, '-w', 'json'];
    this.#process = spawn(etcdctl, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void this.#process.kill('SIGKILL'));
    this.#collected = this.#collect(last);
    this.#collected.catch(() => {});
  }

  /** Every event up to that of the last key, in order. */
  async events(): Promise<readonly SeenEvent[]> {
    await this.#collected;
    return this.#events;
  }

  async #collect(last: string): Promise<void> {
    for await (const line of createInterface({ input: this.#process.stdout as NodeJS.ReadableStream })) {
      const { Events = [] } = JSON.parse(line) as { readonly Events?: readonly EtcdctlEvent[] };
      for (const { type = 0, kv } of Events) {
        const event = {
          revision: BigInt(kv.mod_revision),
          type: type === 1 ? ('delete' as const) : ('put' as const),
          key: fromBase64(kv.key),
          value: fromBase64(kv.value ?? ''),
        };
        this.#events.push(event);
        if (event.key === last) return;
      }
    }
    throw new Error('etcdctl watch ended too soon');
  }
}

/** The same of what the client's watch delivers. */
export function seenEvents({ events }: WatchBatch): SeenEvent[] {
  return events.map(({ type, kv }) => ({ revision: kv.modRevision, type, key: kv.keyText(), value: kv.text() }));
}

function fromBase64(text: string): string {
  return Buffer.from(text, 'base64').toString();
}
