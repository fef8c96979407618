import { type AnyMethod, parseDuration } from '../../../../src/internal.js';
import { type CliError, wrongArguments } from '../exit-code.js';
import { ALLOWED_RPCS, RequestFilter, unknownRpc } from './request-filter.js';

/**
 * What the proxy does with a request.
 *
 * - `delay`: Forwards the request later.
 * - `drop-answer`: Forwards the request, and closes the connection when the answer begins.
 * - `duplicate`: Forwards the request, and sends a copy of it on another connection.
 * - `cut`: Closes the connection instead of forwarding the request.
 * - `silent`: Forwards nothing more on the connection, and leaves it open until the client closes it.
 * - `refuse`: Answers with the gRPC status UNAVAILABLE instead of forwarding the request.
 *
 * The proxy forwards the header of a gRPC request at once, and also the DATA frames of a message except the last one,
 * because etcd does nothing before it has the whole message.
 */
export const FAULT_KINDS = ['delay', 'drop-answer', 'duplicate', 'cut', 'silent', 'refuse'] as const;
type FaultKind = (typeof FAULT_KINDS)[number];

/** A fault that the proxy causes, and for which requests. */
export interface Fault {
  readonly kind: FaultKind;
  /** The delay of a delayed request or of a copy. */
  readonly delayMs: number;
  /** The requests that the fault concerns. */
  readonly filter: RequestFilter;
  /** Number of requests that still meet the fault. */
  left: number;
  /** The fault as text, as `parseFault` accepts it. */
  readonly text: string;
}

const SYNTAX =
  'KIND[=DURATION] [rpc=NAMES] [prefix=KEYS] [times=COUNT], such as "delay=500ms rpc=Put prefix=jobs/ times=3"; ' +
  `the kinds are ${FAULT_KINDS.join(', ')}`;

/** @throws CliError if the text is not a fault. `argument` is the name of the flag in the error. */
export function parseFault(text: string, argument: string): Fault {
  const refused = (given: string, allowed = SYNTAX): CliError =>
    wrongArguments(`${argument}: got ${given}; allowed: ${allowed}`);
  const [first = '', ...filters] = text.trim().split(/\s+/);
  const [name, duration] = first.split('=') as [FaultKind, string | undefined];
  if (!FAULT_KINDS.includes(name)) throw refused(JSON.stringify(text));
  const takesDuration = name === 'delay' || name === 'duplicate';
  const delayMs = duration === undefined ? 0 : parseDuration(duration);
  if (
    delayMs === undefined ||
    delayMs < 0 ||
    (duration !== undefined && !takesDuration) ||
    (name === 'delay' && delayMs === 0)
  )
    throw refused(
      JSON.stringify(first),
      takesDuration ? `${name}=DURATION, such as ${name}=500ms` : `${name} without a value`,
    );
  let rpcs: readonly string[] = [];
  let prefix = '';
  let left = Number.POSITIVE_INFINITY;
  for (const filter of filters) {
    const [, key, value = ''] = /^(rpc|prefix|times)=(.+)$/.exec(filter) ?? [];
    if (key === 'rpc') {
      rpcs = value.split(',');
      const unknown = unknownRpc(rpcs);
      if (unknown !== undefined) throw refused(`rpc=${unknown}`, ALLOWED_RPCS);
    } else if (key === 'prefix') prefix = value;
    else if (key === 'times' && /^[1-9]\d{0,8}$/.test(value)) left = Number(value);
    else throw refused(JSON.stringify(filter));
  }
  const filter = new RequestFilter(rpcs, prefix);
  return { kind: name, delayMs, filter, left, text: text.trim().replace(/\s+/g, ' ') };
}

/** The faults that the proxy causes at present. */
export class FaultRules {
  #faults: readonly Fault[];
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
  }

  /** Returns the first fault that concerns a request, and counts it. `message` is the whole request. */
  take(method: AnyMethod, message: Uint8Array): Fault | undefined {
    const fault = this.#faults.find(({ filter }) => filter.fits(method.path, method.request.typeName, message));
    if (fault === undefined) return undefined;
    fault.left -= 1;
    if (fault.left === 0) this.set(this.#faults.filter((each) => each !== fault));
    return fault;
  }
}
