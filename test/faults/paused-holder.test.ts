import { type ChildProcess, fork } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { type Claim, checkLock, GuardedResource } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import { faultyCluster } from '../support/faults/cluster.js';
import type { ContenderMessage } from '../support/faults/lock-contender.js';
import { rounds } from '../support/faults/rounds.js';
import { Truth } from '../support/truth.js';

// The holder of a lock is stopped between its look at the lock and its write, and goes on when another holds it (S12 to
// S16): what it still does, nobody may take from it.

const CONTENDERS = 3;
const PAUSES = 3;
const TTL_SECONDS = 2;
const LOCK = 'g/lock';
const GUARDED = 'g/value';
const LAST = 'g/~last';

test.for(rounds())(
  'a holder that is stopped does no harm, and without fencing it would (seed $seed)',
  { timeout: 600_000 },
  async (_, context) => {
    const cluster = await faultyCluster();
    if (cluster === undefined) return context.skip('the servers are not ours, or etcdctl is missing');
    const { endpoints, etcdctl } = cluster.etcd;
    const truth = new Truth(etcdctl, endpoints, 'g/', LAST);
    const [fenced, unfenced] = [new GuardedResource(), new GuardedResource({ fenced: false })];
    const claims: Claim[] = [];
    const hold = listeners<{ holder: ChildProcess; token: bigint }>();
    const writes = listeners<bigint>();
    const contenders = Array.from({ length: CONTENDERS }, (_each, index) => {
      const args = [endpoints.join(','), LOCK, GUARDED, String(TTL_SECONDS)];
      const child = fork(new URL('../support/faults/lock-contender.ts', import.meta.url), args, {
        execArgv: ['--import', 'tsx'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      const holder = `contender ${index}`;
      child.on('message', (message: ContenderMessage) => {
        if (message.type === 'claim')
          return claims.push({ ...message.claim, holder, token: BigInt(message.claim.token) });
        const token = BigInt(message.token);
        if (message.type === 'held') return hold.tell({ holder: child, token });
        fenced.write(holder, token);
        unfenced.write(holder, token);
        writes.tell(token);
      });
      return child;
    });

    for (let pauses = 0; pauses < PAUSES; pauses += 1) {
      const { holder, token } = await hold.next();
      holder.kill('SIGSTOP');
      // What it sent before it stopped still comes.
      while ((await writes.next()) <= token);
      holder.kill('SIGCONT');
      await writes.next();
    }
    for (let more = 0; more < 10; more += 1) await writes.next();
    for (const contender of contenders) contender.kill('SIGKILL');

    await openClient({ endpoints }).put(LAST, 'last');
    const happened = await truth.events();
    expect(claims.length).toBeGreaterThan(10);
    expect(
      checkLock(
        claims,
        happened.filter(({ key }) => key.startsWith(`${LOCK}/`)),
      ),
    ).toEqual([]);
    expect(fenced.violations).toEqual([]);
    expect(unfenced.violations.length).toBeGreaterThan(0);
    const tokens = happened.filter(({ key }) => key === GUARDED).map(({ value }) => BigInt(value));
    expect(tokens).toEqual([...tokens].sort((a, b) => Number(a - b)));
  },
);

/** Things that are told one by one, to who waits for the next. */
function listeners<T>(): { tell(item: T): void; next(): Promise<T> } {
  let waiting: ((item: T) => void)[] = [];
  return {
    tell: (item) => {
      const told = waiting;
      waiting = [];
      for (const each of told) each(item);
    },
    next: () => new Promise((resolve) => waiting.push(resolve)),
  };
}
