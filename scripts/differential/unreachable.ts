const SEVERAL_MEMBERS = 'needs a cluster of several members';
const OVERLAP = 'needs two requests at the same moment';
const AFTER_CANCELLATION = 'the client has canceled the call, so it does not receive this error';
const OVERLOAD = 'needs more requests than a test can send';
const STOPPING = 'needs a server that stops during the call';

/** The errors of etcd that the differential test cannot reach, and why. */
export const UNREACHABLE: Readonly<Record<string, string>> = {
  InvalidClientAPIVersion: 'needs metadata that is not valid UTF-8, which the client refuses to send',
  WatchCanceled: AFTER_CANCELLATION,
  Canceled: AFTER_CANCELLATION,
  DeadlineExceeded: AFTER_CANCELLATION,
  MemberExist: 'needs two members with the same ID, which etcd derives from the URLs; `PeerURLExist` comes first',
  ClusterIDMismatch: SEVERAL_MEMBERS,
  RequestTooManyRequests: OVERLOAD,
  ProposalDropped: OVERLOAD,
  AuthOldRevision: OVERLAP,
  NoLeader: SEVERAL_MEMBERS,
  NotLeader: SEVERAL_MEMBERS,
  LeaderChanged: SEVERAL_MEMBERS,
  NotCapable: 'needs members of different versions',
  Stopped: STOPPING,
  TimeoutDueToLeaderFail: SEVERAL_MEMBERS,
  TimeoutDueToConnectionLost: SEVERAL_MEMBERS,
  TimeoutWaitAppliedIndex: SEVERAL_MEMBERS,
  Unhealthy: SEVERAL_MEMBERS,
  NotSupportedForLearner: SEVERAL_MEMBERS,
  ClusterVersionUnavailable: 'needs a cluster that is starting',
};
