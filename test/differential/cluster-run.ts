import type { Access } from './access.js';
import { type ClusterControl, settle } from './cluster-control.js';
import { type ClusterStep, clusterSequence } from './cluster-steps.js';
import { compare, type Mismatch, type Playing } from './compare.js';
import type { Normal } from './normalize.js';
import { Player } from './player.js';

/** The sequence of a seed, and its first step that two clusters answered differently, if there is one. */
export interface ClusterResult {
  readonly steps: readonly ClusterStep[];
  readonly mismatch: Mismatch | undefined;
}

/** Plays the sequence of a seed at two clusters. */
export async function compareClusters(
  seed: number,
  [left, right]: readonly [ClusterControl, ClusterControl],
  onAnswer?: (step: ClusterStep, answer: Normal) => void,
): Promise<ClusterResult> {
  const steps = clusterSequence(seed);
  const players = [new ClusterPlayer(left), new ClusterPlayer(right)] as const;
  return { steps, mismatch: await compare(steps, players, onAnswer) };
}

/** Plays the steps of one sequence at one cluster. */
class ClusterPlayer implements Playing<ClusterStep> {
  readonly #cluster: ClusterControl;
  readonly #player: Player;
  readonly #access: Access;

  constructor(cluster: ClusterControl) {
    this.#cluster = cluster;
    this.#player = new Player(cluster.servers);
    this.#access = this.#player.access;
  }

  /** Heals the cluster, makes the member at position 0 its leader, and removes the state of earlier sequences. */
  async start(): Promise<void> {
    await this.#heal(0);
    await this.#player.start();
  }

  async play(step: ClusterStep): Promise<Normal> {
    if (!('fault' in step)) return this.#player.play(step);
    if (step.fault === 'heal') await this.#heal(step.leader);
    else if (step.fault === 'move') await settle(this.#cluster, this.#access, step.leader);
    else {
      const { at, fault, leader } = step;
      // Writes the data of the member to its disk. Otherwise, etcd would apply the last requests again after its start,
      // and know some tokens again. The call also obtains a token with which `settle` reaches a member that is cut off.
      await this.#access.callAsRoot('maintenance.hash', {}, at);
      if (fault === 'kill') this.#player.close(at);
      await (fault === 'kill' ? this.#cluster.kill(at) : this.#cluster.cutOff(at));
      this.#access.lost = at;
      await settle(this.#cluster, this.#access, leader, fault === 'cut');
    }
    return this.#player.settle();
  }

  close(): void {
    this.#player.close();
  }

  async finish(): Promise<void> {
    await this.#heal(0);
    await this.#player.finish();
  }

  async #heal(leader: number): Promise<void> {
    await this.#cluster.heal();
    this.#access.lost = undefined;
    await settle(this.#cluster, this.#access, leader);
  }
}
