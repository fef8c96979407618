import { compareBytes } from '../../src/base/bytes.js';
import { methods } from '../../src/gen/methods.js';
import type { Commit } from '../../src/testing/memory/change.js';
import type { MemoryMember } from '../../src/testing/memory/memory-member.js';
import {
  type RequestSink,
  type ResponseStream,
  type ServerCall,
  StatusError,
  serverError,
  streamingRoute,
  unaryRoute,
} from '../../src/testing/memory/service.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Method } from '../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import type { Metadata } from '../../src/wire/transport.js';
import { SimulatedCluster } from './cluster.js';
import type { Fault, FaultKind } from './faults.js';
import type { SimulatedMember } from './member.js';
import { PLAIN_CLUSTER } from './traits.js';
import type { World } from './world.js';

/** The number of members. */
export const RAFT_MEMBERS = 3;
/** The longest delay of a message between two members, in milliseconds. */
const MAX_DELAY_MS = 5;

/**
 * A cluster of three members that agree by raft. Faults stop the members of the `MemoryEtcd`, and cut them off from
 * each other, and the network between the members may lose messages. The store of each member must make the same
 * commits.
 */
export class SimulatedRaftCluster extends SimulatedCluster {
  readonly #world: World;
  /** The commits of the store, by their revisions, as the first member has made them. */
  readonly #commits = new Map<bigint, Commit>();
  /** The metadata of the call that a member serves now. */
  #metadata: Metadata | undefined;
  /** The metadata of the calls that have proposed a write, by the request in the log. */
  readonly #proposers = new WeakMap<object, Metadata>();
  /** The index of the latest entry that any member has applied. */
  #applied = 0n;

  constructor(world: World) {
    super(world, RAFT_MEMBERS, PLAIN_CLUSTER, { members: RAFT_MEMBERS });
    this.#world = world;
    const { random } = world;
    const { network } = this.server;
    const isSlow = random.chance(0.4);
    const lossRate = random.pick([0, 0, 0, 0.02, 0.1]);
    if (network !== undefined && (isSlow || lossRate > 0))
      network.delayMs = () => (random.chance(lossRate) ? undefined : isSlow ? random.fraction() * MAX_DELAY_MS : 0);
    for (const { state } of this.server.members) this.#observe(state);
  }

  /** Learns which call has proposed a write, and at which revision the cluster has applied the write. */
  #observe({ consensus, proposals, store }: MemoryMember['state']): void {
    const propose = consensus.propose.bind(consensus);
    consensus.propose = (command) => {
      if (this.#metadata !== undefined) this.#proposers.set(command.request as object, this.#metadata);
      return propose(command);
    };
    const apply = proposals.apply.bind(proposals);
    proposals.apply = (command, index, isAwaited) => {
      const before = store.revision;
      const isFirst = index > this.#applied;
      if (isFirst) this.#applied = index;
      try {
        return apply(command, index, isAwaited);
      } finally {
        const metadata = this.#proposers.get(command.request as object);
        if (isFirst && metadata !== undefined && store.revision > before) this.calls?.applied(metadata, store.revision);
      }
    };
  }

  protected override committed(commit: Commit): void {
    const first = this.#commits.get(commit.revision);
    if (first === undefined) {
      this.#commits.set(commit.revision, commit);
      super.committed(commit);
    } else if (!isSame(first, commit))
      this.#world.unhandled.push(new Error(`two members have made different changes at revision ${commit.revision}`));
  }

  #memoryOf(member: SimulatedMember): MemoryMember {
    return this.server.members[this.members.indexOf(member)] as MemoryMember;
  }

  override unary<Request, Response>(
    member: SimulatedMember,
    method: Method<Request, Response>,
    bytes: Uint8Array,
    call: ServerCall,
  ): Uint8Array | Promise<Uint8Array> {
    this.received.set(method.path, (this.received.get(method.path) ?? 0) + 1);
    this.calls?.received(call.metadata);
    const refused = (error: unknown): never => {
      if (error instanceof StatusError) this.calls?.refused(call.metadata, error);
      throw error;
    };
    try {
      if (this.isOverloaded && method.path !== methods.kv.range.path) throw serverError('RequestTooManyRequests');
      const route = unaryRoute(this.#memoryOf(member), method.path);
      const isMemberList = method.path === methods.cluster.memberList.path;
      const encoded = (message: unknown): Uint8Array =>
        encode(route.method.response, {
          ...(message as Init<unknown>),
          ...(isMemberList && { members: this.memberList() }),
        });
      this.#metadata = call.metadata;
      const answer = route.unary(decode(method.request, bytes), call);
      return answer instanceof Promise ? answer.then(encoded).catch(refused) : encoded(answer);
    } catch (error) {
      return refused(error);
    } finally {
      this.#metadata = undefined;
    }
  }

  override stream<Request, Response>(
    member: SimulatedMember,
    method: Method<Request, Response>,
    responses: ResponseStream<Response>,
    call: ServerCall,
  ): RequestSink<Request> {
    this.received.set(method.path, (this.received.get(method.path) ?? 0) + 1);
    const own: ResponseStream<unknown> = {
      send: (message) => responses.send(message as Init<Response>),
      end: (error) => {
        member.streams.delete(own);
        responses.end(error);
      },
    };
    member.streams.add(own);
    const sink = streamingRoute(this.#memoryOf(member), method.path).streaming(own, call) as RequestSink<Request>;
    return {
      message: (request) => sink.message(request),
      halfClosed: () => sink.halfClosed(),
      canceled: () => {
        member.streams.delete(own);
        sink.canceled();
      },
    };
  }

  /** Real members need no fault that imitates the effects of raft: a member lags because it is cut off. */
  override adapt(
    { kind, variant }: Fault,
    member: SimulatedMember,
  ): { readonly kind: FaultKind; readonly member: SimulatedMember } {
    if (kind === 'lag' || kind === 'slow follower') return { kind: 'isolate member', member };
    if (kind !== 'old leader') return { kind, member };
    const leader = this.members.find((each) => this.#memoryOf(each) === this.server.leader) ?? member;
    if (variant % 2 === 0) return { kind: 'isolate member', member: leader };
    // Moves the leadership, which is no fault of a member.
    const call: ServerCall = { metadata: {}, endpoint: '', signal: new AbortController().signal };
    const { memberId: target } = this.#memoryOf(member).state;
    if (member !== leader)
      this.#memoryOf(leader)
        .state.consensus.moveLeader(target, call)
        .catch(() => {});
    return { kind: 'slow cluster', member };
  }

  override stop(member: SimulatedMember): void {
    super.stop(member);
    this.#memoryOf(member).kill();
  }

  override start(member: SimulatedMember): void {
    super.start(member);
    this.#memoryOf(member).restart();
  }

  override stopAll(): void {
    for (const member of this.members) this.stop(member);
  }

  override startAll(members: readonly SimulatedMember[]): void {
    for (const member of members) this.start(member);
  }

  override isolate(member: SimulatedMember): void {
    member.isIsolated = true;
    this.#memoryOf(member).cutOff();
  }

  override rejoin(member: SimulatedMember): void {
    member.isIsolated = false;
    if (!this.isWithoutLeader) this.#memoryOf(member).heal();
  }

  override loseLeader(): void {
    this.isWithoutLeader = true;
    for (const member of this.server.members) member.cutOff();
  }

  override regainLeader(): void {
    this.isWithoutLeader = false;
    for (const member of this.members) if (!member.isIsolated) this.#memoryOf(member).heal();
  }

  override heal(): void {
    const { network } = this.server;
    if (network !== undefined) network.delayMs = () => 0;
  }

  override compact(back: bigint): void {
    const { store, auth, consensus } = this.server.member;
    const revision = store.revision - back;
    if (revision <= store.compacted || revision < 1n) return;
    const request = { ...methods.kv.compact.request.create(), revision };
    const command = { name: methods.kv.compact.path, request, caller: undefined, authRevision: auth.store.revision };
    (consensus.propose(command) as Promise<unknown>).catch(() => {});
  }
}

function isSame(a: Commit, b: Commit): boolean {
  return (
    a.changes.length === b.changes.length &&
    a.changes.every(({ type, kv }, index) => {
      const other = b.changes[index] as Commit['changes'][number];
      const isEqual = kv.lease === other.kv.lease && kv.createRevision === other.kv.createRevision;
      return (
        type === other.type &&
        isEqual &&
        compareBytes(kv.key, other.kv.key) === 0 &&
        compareBytes(kv.value, other.kv.value) === 0
      );
    })
  );
}
