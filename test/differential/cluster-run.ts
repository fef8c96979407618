import { Random } from '../simulation/random.js';
import { type ClusterControl, MEMBERS, settle } from './cluster-control.js';
import { type ClusterStep, clusterSequence, type MemberCall } from './cluster-steps.js';
import { rpc } from './methods.js';
import { type Difference, firstDifference, type Normal, Normalizer } from './normalize.js';
import { learnRevision, resolve, type Symbols } from './resolve.js';
import type { Connection, Message, Outcome } from './target.js';

/** The first step of a sequence that two clusters answered differently. */
export interface ClusterMismatch {
  readonly steps: readonly ClusterStep[];
  readonly index: number;
  readonly left: Normal;
  readonly right: Normal;
  readonly first: Difference;
}

const ALL_KEYS = { key: Uint8Array.of(0), rangeEnd: Uint8Array.of(0) };
const ALL = Array.from({ length: MEMBERS }, (_, position) => position);
/** etcd adds to the text of a time limit what may have caused it. The cause depends on the timing of the election. */
const TIMEOUT = /^(etcdserver: request timed out), possibly due to .*/;
/** How often a call is repeated that a change of the leader has ended. */
const MOST_REPETITIONS = 5;

/** Plays the sequence of a seed at two clusters. Resolves with the first difference, or with undefined. */
export async function compareClusters(
  seed: number,
  clusters: readonly [ClusterControl, ClusterControl],
  onAnswer: (step: ClusterStep, answer: Normal) => void = () => {},
): Promise<ClusterMismatch | undefined> {
  const steps = clusterSequence(new Random(seed));
  const players = clusters.map((cluster) => new ClusterPlayer(cluster)) as [ClusterPlayer, ClusterPlayer];
  await Promise.all(players.map((player) => player.start()));
  for (const [index, step] of steps.entries()) {
    const [left, right] = (await Promise.all(players.map((player) => player.play(step)))) as [Normal, Normal];
    onAnswer(step, right);
    const first = firstDifference(left, right);
    if (first !== undefined) return { steps, index, left, right, first };
  }
  return undefined;
}

/** Plays the steps of one sequence at one cluster. */
class ClusterPlayer {
  readonly #cluster: ClusterControl;
  readonly #symbols: Symbols = {
    ...{ base: 0n, current: 0n, compacted: 0n, leases: [], members: [] },
    ...{ lockKeys: [], leaders: [] },
  };
  readonly #normalizer = new Normalizer(this.#symbols);
  /** The position of the member that is cut off or killed. */
  #lost: number | undefined;

  constructor(cluster: ClusterControl) {
    this.#cluster = cluster;
  }

  /** Heals the cluster, makes the member at position 0 its leader, and removes the state of earlier sequences. */
  async start(): Promise<void> {
    await this.#cluster.heal();
    await settle(this.#cluster, ALL, [], 0);
    const [first] = this.#cluster.connections as [Connection];
    const call = async (name: string, request: Message): Promise<Message> => {
      const { messages, error } = await first.unary(name, request);
      if (messages[0] === undefined) throw new Error(`${name} failed between two sequences`, { cause: error });
      return messages[0];
    };
    const { leases } = (await call('lease.leaseLeases', {})) as { leases: readonly { readonly id: bigint }[] };
    for (const { id } of leases) await call('lease.leaseRevoke', { id });
    await call('kv.put', { key: Uint8Array.of(0x7e) });
    const { header } = (await call('kv.deleteRange', ALL_KEYS)) as { header: { readonly revision: bigint } };
    const { revision } = header;
    await call('kv.compact', { revision });
    Object.assign(this.#symbols, { base: revision, current: revision, compacted: revision });
    // Both clusters name the members in the order of their positions.
    const { members } = (await call('cluster.memberList', {})) as { members: readonly ListedMember[] };
    for (const [position, connection] of this.#cluster.connections.entries()) {
      const { messages } = await connection.unary('maintenance.status', {});
      const { memberId } = (messages[0] as Message).header as { readonly memberId: bigint };
      this.#normalizer.name('member', memberId);
      for (const { name, peerUrls, clientUrls } of members.filter(({ id }) => id === memberId))
        for (const text of [name, ...peerUrls, ...clientUrls])
          this.#normalizer.ownTexts.set(text, `text of member ${position}`);
    }
    const { authRevision } = await call('auth.authStatus', {});
    this.#normalizer.authBase = authRevision as bigint;
  }

  async play(step: ClusterStep): Promise<Normal> {
    if ('rpc' in step) return this.#call(step);
    if (step.fault === 'cut' || step.fault === 'kill') {
      this.#lost = step.at;
      if (step.fault === 'cut') await this.#cluster.cutOff(step.at);
      else await this.#cluster.kill(step.at);
    } else if (step.fault === 'heal') {
      this.#lost = undefined;
      await this.#cluster.heal();
    }
    const isLonely = (position: number): boolean => position === this.#lost;
    await settle(
      this.#cluster,
      ALL.filter((position) => !isLonely(position)),
      step.fault === 'cut' ? [step.at] : [],
      step.leader,
    );
    return null;
  }

  async #call(step: MemberCall): Promise<Normal> {
    const { kind, request, response } = rpc(step.rpc);
    const connection = this.#cluster.connections[step.at] as Connection;
    // Waits until the member has applied all earlier writes.
    if (step.at !== this.#lost) await connection.unary('kv.range', { key: Uint8Array.of(0x7e) });
    const message = resolve(request.typeName, step.request, this.#symbols);
    const { messages, error } = await this.#repeat(() =>
      kind === 'unary'
        ? connection.unary(step.rpc, message, undefined, step.metadata)
        : connection.collect(step.rpc, message),
    );
    for (const each of messages) learnRevision(this.#symbols, each);
    return {
      responses: messages.map((each) => sorted(step.rpc, this.#normalizer.message(response.typeName, each))),
      ...(error === undefined ? {} : { error: { code: error.code, text: error.problem.replace(TIMEOUT, '$1') } }),
    };
  }

  /** Repeats a read that the cluster has refused because its leader has just changed. */
  async #repeat(call: () => Promise<Outcome>): Promise<Outcome> {
    for (let times = 0; ; times += 1) {
      const outcome = await call();
      if (outcome.error?.reason !== 'LeaderChanged' || times === MOST_REPETITIONS) return outcome;
    }
  }
}

interface ListedMember {
  readonly id: bigint;
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly clientUrls: readonly string[];
}

/** Orders the members of a list by their names in normal form, because the IDs of two clusters have different orders. */
function sorted(name: string, response: Normal): Normal {
  if (!name.startsWith('cluster.')) return response;
  const { members } = response as { readonly members?: readonly Normal[] };
  const byText = [...(members ?? [])].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  return { ...(response as { readonly [property: string]: Normal }), members: byText };
}
