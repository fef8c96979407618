import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { WatchBatch } from '../../src/index.js';
import type { SeenEvent } from '../../src/testing/index.js';

/** A bound for hangs, so that it does not outlive who waits for it. */
const ETCDCTL_TIMEOUT_MS = 120_000;

interface EtcdctlEvent {
  /** Left out for a put. */
  readonly type?: number;
  readonly kv: { readonly key: string; readonly value?: string; readonly mod_revision: number };
}

export interface TruthOptions {
  readonly etcdctl: string;
  /** Of the members, with nothing in between. */
  readonly endpoints: readonly string[];
  readonly prefix: string;
  readonly fromRevision: bigint;
  /** The key whose first event is the last of interest. */
  readonly last: string;
}

/**
 * What happened under a prefix, in order, as etcdctl's watch tells of it afterwards, from the history of a cluster that
 * has its quorum again: it shares no code with this client.
 */
export async function whatHappened(options: TruthOptions): Promise<readonly SeenEvent[]> {
  const { etcdctl, endpoints, prefix, fromRevision, last } = options;
  const where = ['--endpoints', endpoints.join(',')];
  const child = spawn(etcdctl, [...where, 'watch', `--rev=${fromRevision}`, '--prefix', prefix, '-w', 'json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: ETCDCTL_TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  const events: SeenEvent[] = [];
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const { Events } = JSON.parse(line) as { readonly Events?: readonly EtcdctlEvent[] | null };
      for (const { type = 0, kv } of Events ?? []) {
        const event = {
          revision: BigInt(kv.mod_revision),
          type: type === 1 ? ('delete' as const) : ('put' as const),
          key: fromBase64(kv.key),
          value: fromBase64(kv.value ?? ''),
        };
        events.push(event);
        if (event.key === last) return events;
      }
    }
  } finally {
    child.kill('SIGKILL');
  }
  throw new Error(`etcdctl watch ended before it told of ${last}`);
}

/** The same of what the client's watch delivers. */
export function seenEvents({ events }: WatchBatch): SeenEvent[] {
  return events.map(({ type, kv }) => ({ revision: kv.modRevision, type, key: kv.keyText(), value: kv.text() }));
}

function fromBase64(text: string): string {
  return Buffer.from(text, 'base64').toString();
}
