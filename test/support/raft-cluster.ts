import { ManualClock } from '../../src/testing/memory/clock.js';
import type { RaftHost } from '../../src/testing/raft/host.js';
import type { Entry } from '../../src/testing/raft/messages.js';
import { Network } from '../../src/testing/raft/network.js';
import { Raft } from '../../src/testing/raft/raft.js';
import { Random } from '../simulation/random.js';

/** A raft whose state machine is the list of the commands that it has applied. */
interface Node {
  readonly raft: Raft<string>;
  readonly applied: string[];
  /** The answers to `Raft.readIndex`: the index by the number of the request. */
  readonly readable: Map<number, number>;
  isRunning: boolean;
}

/**
 * A cluster of rafts on a clock that the test moves. After each change of a member, it checks the properties of figure
 * 3 of the paper that one state can break. `problems` lists the violations.
 */
export class RaftCluster {
  readonly clock = new ManualClock();
  readonly network = new Network<string>(this.clock);
  readonly random: Random;
  readonly nodes: readonly Node[];
  readonly problems: string[] = [];
  /** The leader of each term. */
  readonly leaders = new Map<number, number>();
  /** The first entry that any member has applied at each index. */
  readonly #committed: Entry<string>[] = [];

  constructor(seed: number, members: number) {
    this.random = new Random(seed);
    const ids = Array.from({ length: members }, (_, id) => id);
    this.nodes = ids.map((id) => this.#node(id, ids));
    this.network.delayMs = () => 1;
    for (const id of ids) this.restart(id);
  }

  #node(id: number, ids: readonly number[]): Node {
    const host: RaftHost<string> = {
      clock: this.clock,
      random: () => this.random.fraction(),
      send: (to, message) => this.network.send(id, to, message),
      apply: (entry, index) => this.#applied(node, entry, index),
      readable: (request, index) => void node.readable.set(request, index),
      changed: () => this.#changed(node),
    };
    const node: Node = { raft: new Raft(id, ids, host), applied: [], readable: new Map(), isRunning: false };
    return node;
  }

  node(id: number): Node {
    return this.nodes[id] as Node;
  }

  /** The running leader of the highest term, if there is one. */
  get leader(): Node | undefined {
    const leaders = this.nodes.filter(({ raft, isRunning }) => isRunning && raft.role === 'leader');
    return leaders.sort((a, b) => b.raft.term - a.raft.term)[0];
  }

  kill(id: number): void {
    const node = this.node(id);
    if (!node.isRunning) return;
    node.isRunning = false;
    this.network.disconnect(id);
    node.raft.stop();
  }

  restart(id: number): void {
    const node = this.node(id);
    if (node.isRunning) return;
    node.isRunning = true;
    this.network.connect(id, (from, message) => node.raft.receive(from, message));
    node.raft.start();
  }

  /** Moves the clock until there is a leader that has committed an entry of its term, at most for `ms`. */
  async untilLeader(ms = 20_000): Promise<Node> {
    for (let passed = 0; passed < ms; passed += 10) {
      const { leader } = this;
      if (leader !== undefined && leader.raft.termAt(leader.raft.commitIndex) === leader.raft.term) return leader;
      await this.advance(10);
    }
    throw new Error(`no leader within ${ms} ms`);
  }

  /** Moves the clock. Messages without a delay arrive, too. */
  async advance(ms: number): Promise<void> {
    this.clock.advance(ms);
    await Promise.resolve();
  }

  /** Election Safety: a term has at most one leader. Leader Completeness: it has all committed entries. */
  #changed({ raft }: Node): void {
    if (raft.role !== 'leader') return;
    const known = this.leaders.get(raft.term) ?? raft.id;
    if (known !== raft.id) this.problems.push(`term ${raft.term} has the leaders ${known} and ${raft.id}`);
    this.leaders.set(raft.term, raft.id);
    for (const [at, entry] of this.#committed.entries())
      if (raft.log[at]?.term !== entry.term)
        this.problems.push(`leader ${raft.id} of term ${raft.term} lacks the committed entry ${at + 1}`);
  }

  /** State Machine Safety: no two members apply different entries at an index. */
  #applied(node: Node, entry: Entry<string>, index: number): void {
    const first = this.#committed[index - 1];
    this.#committed[index - 1] ??= entry;
    if (first !== undefined && first !== entry) this.problems.push(`two entries were applied at index ${index}`);
    if (entry.command !== undefined) node.applied.push(entry.command);
  }

  /** Log Matching: two logs with the same term at an index are equal up to this index. */
  checkLogs(): void {
    for (const [at, { raft: a }] of this.nodes.entries())
      for (const { raft: b } of this.nodes.slice(at + 1)) {
        let index = Math.min(a.log.length, b.log.length);
        while (index > 0 && a.termAt(index) !== b.termAt(index)) index -= 1;
        for (; index > 0; index -= 1)
          if (a.log[index - 1] !== b.log[index - 1])
            this.problems.push(`the logs of ${a.id} and ${b.id} differ at index ${index}`);
      }
  }
}
