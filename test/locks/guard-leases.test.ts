import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { TxnRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { Client, type ClientOptions, EtcdError, type Interceptor, op } from '../../src/index.js';
import { MemoryEtcd, type MemoryMember, memory } from '../../src/testing/index.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import type { TransportFactory, UnaryCall } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { answerLost } from '../support/transactions.js';
import { VirtualClock } from '../support/virtual-clock.js';

// The lease of the guards of a client with `retryWrites`, and reads of lost results, on a virtual clock (rule S45 in
// docs/semantics.md).

/** The client uses the lease of its guards for this long. */
const USABLE_MS = 300_000;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});

afterEach(() => clock.restore());

function opened(server: MemoryEtcd | MemoryMember, options: Partial<ClientOptions> = {}): Client {
  const client = new Client({ transport: memory(server), ...options });
  onTestFinished(() => client.close({ drainMs: 50 }));
  return client;
}

describe('the close of a client with `retryWrites`', () => {
  test('revokes the lease with which the guards began, also if the server has refused the lease after it', async () => {
    const server = new MemoryEtcd();
    let refuses = false;
    const refusing: Interceptor = {
      unary: async (call, next) => {
        if (!refuses || call.method.path !== methods.lease.leaseGrant.path) return next(call);
        throw new EtcdError('refused', { code: 'PermissionDenied', reason: 'PermissionDenied', outcome: 'rejected' });
      },
    };
    const etcd = opened(server, { retryWrites: true, interceptors: [refusing] });
    await etcd.put('a', '');
    clock.block(USABLE_MS);
    refuses = true;
    expect(await errorOf(etcd.put('b', ''))).toMatchObject({ reason: 'PermissionDenied' });
    refuses = false;
    await etcd.put('c', '');
    const reader = opened(server);
    expect((await reader.lease.list()).ids).toHaveLength(2);
    await etcd.close();
    expect((await reader.lease.list()).ids).toEqual([]);
  });

  test('makes sure that a put that was lost on the way is not applied later', async () => {
    const server = new MemoryEtcd();
    const reader = opened(server);
    const late: (() => Promise<unknown>)[] = [];
    let losesTransactions = false;
    const losing: Interceptor = {
      unary: async (call, next) => {
        if (!losesTransactions || call.method.path !== methods.kv.txn.path) return next(call);
        late.push(() => reader.rpc.call(methods.kv.txn, call.request as Init<TxnRequest>));
        throw answerLost();
      },
    };
    const etcd = opened(server, { retryWrites: true, interceptors: [losing] });
    await etcd.put('first', '');
    losesTransactions = true;
    expect(await errorOf(etcd.put('late', ''))).toMatchObject({ outcome: 'unknown' });
    await etcd.close();
    expect(late).not.toEqual([]);
    for (const arrive of late) await arrive().catch(() => {});
    expect(await reader.get('late')).toBeUndefined();
  });
});

test('a transaction with a serializable read whose answer is lost gets its result from a member that lags behind the write', async () => {
  const server = new MemoryEtcd({ members: 3 });
  onTestFinished(() => server.stop());
  const [leader] = server.members as [MemoryMember, MemoryMember, MemoryMember];
  const lagging = server.members.find((member) => member !== server.leader) as MemoryMember;
  const other = opened(server);
  let transactions = 0;
  const transport: TransportFactory = (endpoint, options) => {
    const real = memory(server.leader ?? leader)(endpoint, options);
    const atLagging = memory(lagging)(endpoint, options);
    return {
      unary: async <Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> => {
        if (call.method.path !== methods.kv.txn.path) return real.unary(call);
        transactions += 1;
        // The first transaction creates the guard, the second and the third one write, and the fourth one reads.
        if (transactions === 4) {
          const answer = atLagging.unary(call);
          lagging.heal();
          return answer;
        }
        if (transactions !== 2) return real.unary(call);
        lagging.cutOff();
        // The read is for the revision of this put, which the member that lags behind does not have.
        await other.put('between', '');
        await real.unary(call);
        throw answerLost();
      },
      stream: (call, handler) => real.stream(call, handler),
      close: async () => void (await Promise.all([real.close(), atLagging.close()])),
    };
  };
  const etcd = opened(server, { retryWrites: true, transport });
  await other.put('read', 'before');
  const result = etcd.txn({ then: [op.put('written', ''), op.get('read', { serializable: true })] });
  result.catch(() => {});
  await clock.pass(4_000);
  expect((await result).responses[1]?.text()).toBe('before');
  expect(transactions).toBe(4);
});
