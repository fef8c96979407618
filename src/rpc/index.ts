export {
  isEndedByClient,
  isEndpointFailure,
  isMomentaryRefusal,
  isOverloadRefusal,
  isRefusedByClient,
  isResumable,
  isTokenRefused,
  isTransient,
  mayUseAnotherToken,
} from './attempts.js';
export {
  AuthenticatedTransport,
  askForCredentials,
  type Credentials,
  type CredentialsSource,
  checkCredentials,
  isPermission,
  type PlaintextPermission,
} from './authentication.js';
export { beforeSending } from './before-sending.js';
export { Channel, MAX_IN_FLIGHT } from './channel.js';
export { type ClusterIdentity, withRead } from './cluster-identity.js';
export { syncEndpoints, withAutoSync } from './endpoint-discovery.js';
export { BALANCES, type Balance } from './endpoint-pool.js';
export { checkInterceptors, type Interceptor, withInterceptors } from './interceptors.js';
export {
  type CallDiagnostics,
  type CallObserver,
  type CancelFailure,
  observeStream,
  observeUnary,
  withDiagnostics,
} from './observe.js';
export { withOrderedReads } from './ordered-reads.js';
export { PlaintextRule } from './plaintext-rule.js';
export { isCheckedByOne } from './proofs.js';
export {
  type BidiStream,
  openServerStream,
  openStream,
  readStream,
  STREAM_OPTIONS,
  type StreamOptions,
} from './raw-streams.js';
export { Result, type WithHeader, withHeader, withHeaderOf } from './results.js';
export { type NextStream, ResumableStream } from './resumable-stream.js';
export {
  CALL_OPTIONS,
  type CallOptions,
  checkCallOptions,
  checkTimeout,
  deadlineIn,
  internally,
  Rpc,
  type RpcSettings,
  TIME_LIMITS,
  traceIn,
  WRITE_OPTIONS,
  type WriteOptions,
  withObserver,
  withoutDefaultTimeout,
  withSharedLimit,
} from './rpc.js';
export { WaitTrace } from './wait-trace.js';
