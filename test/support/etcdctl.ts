import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import type { WatchBatch } from '../../src/index.js';
import type { SeenEvent } from '../../src/testing/index.js';
import { valueText } from './watch-events.js';

/** Runs etcdctl and resolves with its output. @throws Error that contains the output if etcdctl fails. */
export async function runEtcdctl(etcdctl: string, endpoints: readonly string[], ...args: string[]): Promise<string> {
  const { stdout } = await execute(etcdctl, ['--endpoints', endpoints.join(','), ...args]);
  return stdout;
}

const execute = promisify(execFile);

/** The time in milliseconds after which an etcdctl that hangs is killed, so that it does not outlive the test. */
const WATCH_TIMEOUT_MS = 120_000;

interface EtcdctlEvent {
  /** 1 for a deletion. Missing for a put. */
  readonly type?: number;
  readonly kv: { readonly key: string; readonly value?: string; readonly mod_revision: number };
}

export interface HistoryOptions {
  readonly etcdctl: string;
  /** The endpoints of the members themselves, without proxies. */
  readonly endpoints: readonly string[];
  readonly prefix: string;
  readonly fromRevision: bigint;
  /** The key whose first event ends the history. */
  readonly last: string;
}

/**
 * Resolves with the events under a prefix, in order, from the history of a cluster. The cluster must have a quorum.
 * Tests compare the results of this client with these events. etcdctl reads the events, because it shares no code with
 * this client.
 */
export async function historyOf(options: HistoryOptions): Promise<readonly SeenEvent[]> {
  const { etcdctl, endpoints, prefix, fromRevision, last } = options;
  const endpointArgs = ['--endpoints', endpoints.join(',')];
  const watchArgs = ['watch', `--rev=${fromRevision}`, '--prefix', prefix, '-w', 'json'];
  const child = spawn(etcdctl, [...endpointArgs, ...watchArgs], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: WATCH_TIMEOUT_MS,
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
  throw new Error(`etcdctl watch ended before it printed an event of ${last}`);
}

/** Returns the events of a batch from this client's watch, in the form that `historyOf` returns. */
export function seenEvents({ events }: WatchBatch): SeenEvent[] {
  return events.map((event) => ({
    revision: event.modRevision,
    type: event.type,
    key: event.key,
    value: valueText(event),
  }));
}

function fromBase64(text: string): string {
  return Buffer.from(text, 'base64').toString();
}
