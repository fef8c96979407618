/** The ways in which a cluster may differ from other clusters. The protocol permits all of them. */
export interface ClusterTraits {
  /** Whether a proxy like `etcd grpc-proxy` answers: it chooses watch IDs, and answers creations in any order. */
  readonly isProxy: boolean;
  /** Whether answers to progress requests overtake events, as with etcd before 3.5.8. */
  readonly progressOvertakes: boolean;
  /** Whether watches that catch up get their events in several responses, as after more than 1,000 revisions. */
  readonly splitsEvents: boolean;
  /** Whether the last member is a learner, which serves no client. */
  readonly hasLearner: boolean;
  /** Whether authentication is enabled, with tokens that expire soon. */
  readonly hasAuth: boolean;
}

export const PLAIN_CLUSTER: ClusterTraits = {
  isProxy: false,
  progressOvertakes: false,
  splitsEvents: false,
  hasLearner: false,
  hasAuth: false,
};

/** The user of all clients, if authentication is enabled. */
export const ROOT = { username: 'root', password: 'root-secret', allowPlaintext: true } as const;
/** The version that a cluster reports if its answers to progress requests overtake events. */
export const OLD_VERSION = '3.5.7';
