import { Network } from '../raft/network.js';
import type { Clock } from './clock.js';
import { Member, randomId, siteOf } from './member.js';
import { MemoryMember } from './memory-member.js';
import { type Proposed, Replica } from './replica.js';
import type { MemberSettings } from './settings.js';

/** The port of the first member in the peer URLs. No member listens there. */
const FIRST_PEER_PORT = 2_380;

/** The members of a cluster, and the network between them. */
export interface Cluster {
  readonly members: readonly MemoryMember[];
  readonly network: Network<Proposed>;
}

/** Creates and starts a cluster with a leader. `settings` are those of each member. */
export function startCluster(settings: readonly MemberSettings[], clock: Clock, random: () => number): Cluster {
  const network = new Network<Proposed>(clock);
  const clusterId = randomId(random);
  const sites = settings.map((each, index) =>
    siteOf(randomId(random), each, `http://localhost:${FIRST_PEER_PORT + 100 * index}`),
  );
  const ids = settings.map((_, id) => id);
  const names = settings.map(({ name }) => name);
  const replicas: Replica[] = [];
  const members = settings.map((each, id) => {
    const { id: memberId } = sites[id] as (typeof sites)[number];
    const state = new Member(each, { clusterId, memberId, sites });
    const replica = new Replica(id, ids, state, network, replicas);
    replicas.push(replica);
    state.consensus = replica;
    return new MemoryMember(state, names, replica);
  });
  for (const replica of replicas) replica.start();
  const first = replicas[Math.floor(random() * replicas.length)] as Replica;
  network.runToEnd(() => first.raft.campaign('Vote'));
  return { members, network };
}
