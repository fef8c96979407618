import { type Call, callsIn, type Frame } from '../12-break-it.js';

/** The statuses that leave the outcome of a write unknown: see chapter 6. */
const UNKNOWN = new Set([1, 2, 4, 13, 14]);

/** Exercise 1: says whether etcd has applied a write, as the recording of a proxy shows. */
export function writeOutcome(call: Call): 'applied' | 'rejected' | 'unknown' {
  const { method, hasAnswer, status, responses } = call;
  if (status !== undefined && status !== 0) return UNKNOWN.has(status) ? 'unknown' : 'rejected';
  // The beginning of an answer shows that etcd has processed the call, but not whether a condition held.
  if (status === undefined) return hasAnswer && method !== 'Txn' ? 'applied' : 'unknown';
  return method === 'Txn' && responses[0]?.message.succeeded !== true ? 'rejected' : 'applied';
}

/** Exercise 2: the longest time in milliseconds between a renewal of a lease and its answer. */
export function slowestRenewal(frames: Frame[]): number {
  const renewals = callsIn(frames).filter(({ method }) => method === 'LeaseKeepAlive');
  const delays = renewals.flatMap(({ requests, responses }) =>
    requests.map(({ ms }, index) => (responses[index]?.ms ?? Number.POSITIVE_INFINITY) - ms),
  );
  return Math.max(0, ...delays);
}

/** Exercise 3: the fault that a proxy has caused with the only Put of a client. */
export function findFault(atClient: Frame[], atEtcd: Frame[]) {
  const putsIn = (frames: Frame[]) => callsIn(frames).filter(({ method }) => method === 'Put');
  const durationOf = ({ requests, responses }: Call) => (responses[0]?.ms ?? 0) - (requests[0]?.ms ?? 0);
  const [[sent], arrived] = [putsIn(atClient), putsIn(atEtcd)];
  if (sent === undefined) return 'none';
  const [first] = arrived;
  if (first === undefined) return sent.status === undefined ? 'cut or silent' : 'refuse';
  if (arrived.length > 1) return 'duplicate';
  if (sent.status === undefined) return 'drop-answer';
  return durationOf(sent) - durationOf(first) > 400 ? 'delay' : 'none';
}
