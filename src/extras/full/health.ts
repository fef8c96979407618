import {
  checkMs,
  checkOptions,
  checkSignal,
  type EtcdError,
  monotonicMs,
  printable,
  type SignalOption,
} from '../../base/index.js';
import { type Client, checkFullClient } from './client.js';

/** Options of `health`. */
export interface HealthOptions {
  /** Time limit in milliseconds for the answers of one endpoint. Default 2,000. */
  readonly timeoutMs?: number | undefined;
  /** Cancels the calls. `health` then resolves at once, and the endpoints that have not answered are not healthy. */
  readonly signal?: SignalOption;
}

const HEALTH_OPTIONS = { timeoutMs: checkMs, signal: checkSignal } as const;
const DEFAULT_TIMEOUT_MS = 2_000;
/**
 * The key that `health` and `connect` read. The key need not exist. etcdctl reads the same key for `endpoint health`.
 */
export const HEALTH_KEY = 'health';

/**
 * The answers of one endpoint. `memberId`, `isLeader`, `isLearner`, `version` and `dbSize` are undefined if the member
 * did not answer the request for its status.
 */
export interface EndpointHealth {
  readonly endpoint: string;
  /** Whether the member answered a linearizable read, which needs a leader and a quorum. */
  readonly isHealthy: boolean;
  /** Milliseconds until the answer to that read. Undefined if the endpoint is not healthy. */
  readonly latencyMs: number | undefined;
  /**
   * Why the endpoint is not healthy. Undefined if the endpoint is healthy. After a timeout, the `cause` contains the
   * failures of the attempts.
   */
  readonly error: EtcdError | undefined;
  readonly memberId: bigint | undefined;
  readonly isLeader: boolean | undefined;
  readonly isLearner: boolean | undefined;
  readonly version: string | undefined;
  /** Alarms and other problems that the member reports, as text. */
  readonly problems: readonly string[];
  /** Size of the member's database file in bytes. */
  readonly dbSize: bigint | undefined;
}

/** The answers of all endpoints of a client. */
export interface Health {
  /**
   * Whether at least one endpoint has answered a linearizable read, so the cluster serves this client. Use it for a
   * readiness check: it stays true while a minority of the members is down.
   */
  readonly canServe: boolean;
  /** Whether all endpoints are healthy and report no problems. Use it for an alert. */
  readonly allHealthy: boolean;
  /** The answers, in the order of the property `endpoints` of the client. */
  readonly endpoints: readonly EndpointHealth[];
}

/**
 * Asks each endpoint of a client for a linearizable read, as `etcdctl endpoint health` does, and for its status. Never
 * rejects because of an endpoint that does not answer. An endpoint counts as healthy even if the user has no permission
 * for the read. A learner refuses the read, so it is not healthy.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid.
 *
 * @example
 * const { canServe, endpoints } = await health(etcd);
 * for (const { endpoint, latencyMs, error } of endpoints) console.log(endpoint, latencyMs, error?.reason);
 * console.log(canServe); // true
 */
export async function health(client: Client, options: HealthOptions = {}): Promise<Health> {
  checkOptions(options, HEALTH_OPTIONS, 'health');
  checkFullClient(client, 'status');
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  const call = { timeoutMs, signal };
  const endpoints = await Promise.all(client.endpoints.map((endpoint) => healthOf(client, endpoint, call)));
  return printable({
    canServe: endpoints.some(({ isHealthy }) => isHealthy),
    allHealthy: endpoints.every(({ isHealthy, problems }) => isHealthy && problems.length === 0),
    endpoints,
  });
}

async function healthOf(
  client: Client,
  endpoint: string,
  call: { readonly timeoutMs: number; readonly signal: SignalOption },
): Promise<EndpointHealth> {
  const startedAt = monotonicMs();
  const [answer, known] = await Promise.all([
    client.get(HEALTH_KEY, { ...call, endpoint }).then(
      () => monotonicMs() - startedAt,
      (error: EtcdError) => (error.reason === 'PermissionDenied' ? monotonicMs() - startedAt : error),
    ),
    client.maintenance.status(endpoint, call).catch(() => undefined),
  ]);
  const isHealthy = typeof answer === 'number';
  return printable({
    endpoint,
    isHealthy,
    latencyMs: isHealthy ? answer : undefined,
    error: isHealthy ? undefined : answer,
    memberId: known?.header.memberId,
    isLeader: known && known.leader === known.header.memberId,
    isLearner: known?.isLearner,
    version: known?.version,
    problems: known?.errors ?? [],
    dbSize: known?.dbSize,
  });
}
