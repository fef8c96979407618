import type { RaftMessage } from '../../../../src/internal.js';
import type { Playground } from './playground.js';

// The messages between the members of an etcd with several members.

/** Time in milliseconds that a message between two members needs. */
const LATENCY_MS = 10;

/**
 * Adds the messages between the members to the trace, except the heartbeats and their answers. A heartbeat that tells a
 * follower of a new commit index is a message, too.
 */
export function tapMembers(playground: Playground): void {
  const { members, network } = playground.server;
  if (network === undefined) return;
  network.delayMs = () => LATENCY_MS;
  const send = network.send.bind(network);
  /** The last entry that each member has confirmed. */
  const confirmed = members.map(({ raft }) => raft?.log.length ?? 0);
  /** The commit index of which each member has been told. */
  const told = members.map(({ raft }) => raft?.commitIndex ?? 0);
  network.send = (from, to, message) => {
    send(from, to, message);
    const isNews = message.type === 'Appended' && message.success && message.matchIndex !== confirmed[from];
    if (isNews) confirmed[from] = message.matchIndex;
    const isCommit = message.type === 'AppendEntries' && message.leaderCommit > (told[to] ?? 0);
    if (isCommit) told[to] = message.leaderCommit;
    const commit = isCommit ? `entry ${message.leaderCommit} is committed` : undefined;
    const described = isNews ? `I have entry ${message.matchIndex}` : (describe(message) ?? commit);
    const [sender, receiver] = [members[from], members[to]];
    if (described === undefined || sender === undefined || receiver === undefined) return;
    const isLost = sender.isCutOff || receiver.isCutOff || !receiver.running;
    playground.addWithoutFrame({
      client: undefined,
      from: sender.name,
      to: receiver.name,
      label: isLost ? `${described} (lost)` : described,
      protocol: `${message.type}${'term' in message ? ` · term ${message.term}` : ''}`,
      kind: isLost ? 'lost' : 'raft',
    });
  };
}

/** Describes a message. Undefined for heartbeats, and for the answers that a reader does not need. */
function describe(message: RaftMessage<unknown>): string | undefined {
  switch (message.type) {
    case 'RequestVote':
      return message.isPreVote
        ? `would you vote for me in term ${message.term}?`
        : `vote for me in term ${message.term}`;
    case 'Vote':
      if (!message.voteGranted) return 'no vote';
      return message.isPreVote ? 'I would vote for you' : 'my vote is yours';
    case 'AppendEntries': {
      const { entries, prevLogIndex } = message;
      if (entries.length === 0) return undefined;
      const last = prevLogIndex + entries.length;
      return entries.length === 1 ? `append entry ${last}` : `append entries ${prevLogIndex + 1} to ${last}`;
    }
    case 'Appended':
      return undefined;
    case 'Forward':
      return 'a write for the leader';
    case 'ReadIndex':
      return 'which entry is the latest committed one?';
    case 'ReadIndexAnswer':
      return `entry ${message.index}, and I still lead`;
    case 'TimeoutNow':
      return 'start an election now';
  }
}
