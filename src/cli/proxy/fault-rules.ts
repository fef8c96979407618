import { explain } from '../../inspect/explain.js';
import { parseDuration } from '../../node/duration.js';
import type { AnyMethod } from '../../reflection/method-table.js';
import { monotonicMs } from '../../runtime/timers.js';
import { CliError, ExitCode } from '../exit-code.js';

/**
 * What the proxy does with a request.
 *
 * - `delay`: Forwards the request later.
 * - `drop-answer`: Forwards the request, and closes the connection when the answer begins.
 * - `duplicate`: Forwards the request, and sends a copy of it on another connection.
 * - `cut`: Closes the connection instead of forwarding the request.
 * - `silent`: Forwards nothing more on the connection, and leaves it open.
 * - `refuse`: Answers with the gRPC status UNAVAILABLE, and forwards nothing of the request but its header.
 */
export const FAULT_KINDS = ['delay', 'drop-answer', 'duplicate', 'cut', 'silent', 'refuse'] as const;
type FaultKind = (typeof FAULT_KINDS)[number];

/** A fault that the proxy causes, and for which requests. */
export interface Fault {
  readonly kind: FaultKind;
  /** The delay of a delayed request or of a copy. */
  readonly delayMs: number;
  /** Names of RPCs, such as `Put` or `KV/Put`. Empty for all RPCs. */
  readonly rpcs: readonly string[];
  /** The beginning of the keys of a request. Empty for all requests. */
  readonly prefix: string;
  /** Number of requests that still meet the fault. */
  left: number;
  /** The fault as text, as `parseFault` accepts it. */
  readonly text: string;
}

const SYNTAX =
  'KIND[=DURATION] [rpc=NAMES] [prefix=KEYS] [times=COUNT], such as "delay=500ms rpc=Put prefix=jobs/ times=3"; ' +
  `the kinds are ${FAULT_KINDS.join(', ')}`;

/** @throws CliError if the text is not a fault. `argument` is the name of the flag in the error. */
export function parseFault(text: string, argument: string, rpcNames: ReadonlySet<string>): Fault {
  const refused = (given: string, allowed = SYNTAX): CliError =>
    new CliError(ExitCode.USAGE, `${argument}: got ${given}; allowed: ${allowed}`);
  const [first = '', ...filters] = text.trim().split(/\s+/);
  const [name, duration] = first.split('=') as [FaultKind, string | undefined];
  if (!FAULT_KINDS.includes(name)) throw refused(JSON.stringify(text));
  const takesDuration = name === 'delay' || name === 'duplicate';
  const delayMs = duration === undefined ? 0 : parseDuration(duration);
  if (delayMs === undefined || (duration !== undefined && !takesDuration) || (name === 'delay' && delayMs === 0))
    throw refused(
      JSON.stringify(first),
      takesDuration ? `${name}=DURATION, such as ${name}=500ms` : `${name} without a value`,
    );
  const found = { rpcs: [] as readonly string[], prefix: '', left: Number.POSITIVE_INFINITY };
  for (const filter of filters) {
    const [, key, value = ''] = /^(rpc|prefix|times)=(.+)$/.exec(filter) ?? [];
    if (key === 'rpc') {
      found.rpcs = value.split(',');
      const unknown = found.rpcs.find((rpc) => !rpcNames.has(rpc));
      if (unknown !== undefined) throw refused(`rpc=${unknown}`, 'names such as Put or KV/Put; see etcdwire list');
    } else if (key === 'prefix') found.prefix = value;
    else if (key === 'times' && /^[1-9]\d{0,8}$/.test(value)) found.left = Number(value);
    else throw refused(JSON.stringify(filter));
  }
  return { kind: name, delayMs, ...found, text: text.trim().replace(/\s+/g, ' ') };
}

/** Returns the names by which a filter can name an RPC: `Put`, `KV/Put` and `etcdserverpb.KV/Put`. */
export function rpcNamesOf(path: string): readonly string[] {
  const full = path.slice(1);
  return [full.slice(full.indexOf('/') + 1), full.slice(full.indexOf('.') + 1), full];
}

/** The faults that the proxy causes at present. */
export class FaultRules {
  #faults: readonly Fault[];
  /** Time of the latest change, in milliseconds on the monotonic clock. */
  changedMs = 0;
  /** Increases with every change. */
  version = 0;

  constructor(faults: readonly Fault[] = []) {
    this.#faults = faults;
  }

  get all(): readonly Fault[] {
    return this.#faults;
  }

  get isEmpty(): boolean {
    return this.#faults.length === 0;
  }

  /** Replaces all faults. */
  set(faults: readonly Fault[]): void {
    this.#faults = faults;
    this.version += 1;
    this.changedMs = monotonicMs();
  }

  /** Returns the first fault that concerns a request, and counts it. `message` may be the beginning of the request. */
  take(method: AnyMethod, message: Uint8Array): Fault | undefined {
    const names = rpcNamesOf(method.path);
    let keys: readonly Uint8Array[] | undefined;
    const fault = this.#faults.find(({ rpcs, prefix }) => {
      if (rpcs.length > 0 && !rpcs.some((rpc) => names.includes(rpc))) return false;
      if (prefix === '') return true;
      keys ??= keysIn(method.request.typeName, message);
      const bytes = new TextEncoder().encode(prefix);
      return keys.some((key) => bytes.every((byte, index) => key[index] === byte));
    });
    if (fault === undefined) return undefined;
    fault.left -= 1;
    if (fault.left === 0) this.set(this.#faults.filter((each) => each !== fault));
    return fault;
  }
}

/** Fields that contain a key or the name of a lock or an election. */
const KEY_FIELDS: ReadonlySet<string> = new Set(['key', 'name']);

/** Returns the keys in a request, also in its operations. Returns those that it can find if the request is incomplete. */
export function keysIn(typeName: string, message: Uint8Array): readonly Uint8Array[] {
  const keys: Uint8Array[] = [];
  try {
    for (const { part, field, start, end } of explain(typeName, message))
      if (part === 'value' && field !== undefined && KEY_FIELDS.has(field.name))
        keys.push(message.subarray(start, end));
  } catch {
    // The rest of the request has not arrived. A whole request that is malformed is the server's to refuse.
  }
  return keys;
}
