import { type Call, callsIn, type Frame } from '../12-break-it.js';

/** The statuses with which etcd has refused a write. Any other error leaves the outcome unknown: see chapter 6. */
const REFUSED = new Set([3, 5, 7, 12]);

/** Exercise 1: says whether etcd has applied a write, as the recording of a proxy shows. */
export function writeOutcome(call: Call): 'applied' | 'rejected' | 'unknown' {
  const { method, hasAnswer, status, responses } = call;
  if (status !== undefined && status !== 0) return REFUSED.has(status) ? 'rejected' : 'unknown';
  // The beginning of an answer shows that etcd has processed the call. Only the message says if a condition held.
  const [response] = responses;
  if (method !== 'Txn') return hasAnswer ? 'applied' : 'unknown';
  if (response === undefined) return 'unknown';
  return response.message.succeeded === true ? 'applied' : 'rejected';
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
