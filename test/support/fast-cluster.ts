import { expect } from 'vitest';
import { Client, type ClientOptions } from '../../src/extras/full/client.js';
import { ManualClock } from '../../src/testing/memory/clock.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import type { MemoryMember } from '../../src/testing/memory/memory-member.js';
import { memory } from '../../src/testing/memory/transport.js';

/** A cluster of three members on a clock that runs a hundred times as fast as the real time. */
export class FastCluster implements AsyncDisposable {
  readonly clock = new ManualClock();
  readonly server = new MemoryEtcd({ members: 3, clock: this.clock });
  readonly #clients: Client[] = [];
  readonly #timer = setInterval(() => this.clock.advance(100), 1);

  client(server: MemoryEtcd | MemoryMember = this.server, options: Partial<ClientOptions> = {}): Client {
    const client = new Client({ transport: memory(server), ...options });
    this.#clients.push(client);
    return client;
  }

  get leader(): MemoryMember {
    return this.server.leader as MemoryMember;
  }

  get followers(): readonly MemoryMember[] {
    return this.server.members.filter((member) => member !== this.leader);
  }

  async untilLeader(other?: MemoryMember): Promise<MemoryMember> {
    await expect.poll(() => this.server.leader !== undefined && this.server.leader !== other).toBe(true);
    return this.leader;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.server.members) {
      member.heal();
      member.restart();
    }
    await Promise.all(this.#clients.map((client) => client.close({ drainMs: 50 })));
    clearInterval(this.#timer);
    this.server.stop();
  }
}
