import { describe, expect, inject, test } from 'vitest';
import type { RangeRequest, RequestOp, ResponseHeader, TxnRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { type Client, op, prefix, rawEnums } from '../../../src/index.js';
import { beforeSending } from '../../../src/rpc/before-sending.js';
import { ClusterIdentity, isLinearizable } from '../../../src/rpc/cluster-identity.js';
import { withOrderedReads } from '../../../src/rpc/ordered-reads.js';
import { defaultTransport } from '../../../src/wire/default-transport.js';
import type { Init } from '../../../src/wire/protobuf/writer.js';
import type { Transport, TransportFactory, UnaryCall } from '../../../src/wire/transport.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { faultProxy } from '../../support/fault-proxy.js';

const SERIALIZABLE = { serializable: true } as const;

describe('a serializable read (with `orderedReads` unless noted)', () => {
  test('may return older data than an earlier read when `orderedReads` is off', async () => {
    const { open, behind, name } = await laggingMember();
    const etcd = open({ orderedReads: false });
    expect((await etcd.get(name))?.text()).toBe('new');
    expect((await etcd.get(name, { ...SERIALIZABLE, endpoint: behind }))?.text()).toBe('old');
  });

  test('is repeated once, linearizably, when its member lags behind an earlier read', async () => {
    const { open, behind, name, asked } = await laggingMember();
    const etcd = open();
    expect((await etcd.get(name))?.text()).toBe('new');
    asked.length = 0;
    const { kvs, header } = await etcd.range(name, { ...SERIALIZABLE, endpoint: behind });
    expect(kvs[0]?.text()).toBe('new');
    expect(header.revision).toBeGreaterThanOrEqual(kvs[0]?.modRevision ?? 0n);
    expect(asked).toEqual([`${behind} serializable`, `${behind} linearizable with a leader`]);
  });

  test('returns the data of a member that lags behind when the client has seen nothing newer', async () => {
    const { open, behind, name, asked } = await laggingMember();
    expect((await open().get(name, { ...SERIALIZABLE, endpoint: behind }))?.text()).toBe('old');
    expect(asked).toEqual([`${behind} serializable`]);
  });

  test('returns data that is no older than an earlier write, and than an earlier event of a watch', async () => {
    const { open, behind, name } = await laggingMember();
    const writer = open();
    await writer.put(name, 'written');
    expect((await writer.get(name, { ...SERIALIZABLE, endpoint: behind }))?.text()).toBe('written');
    const watcher = open();
    const watch = watcher.watch(name);
    await watch.created();
    await writer.put(name, 'seen in a watch');
    for await (const event of watch) {
      expect(event).toMatchObject({ type: 'put' });
      break;
    }
    expect((await watcher.get(name, { ...SERIALIZABLE, endpoint: behind }))?.text()).toBe('seen in a watch');
  });

  test('returns no older data in a transaction and in a namespace', async () => {
    const { open, behind, name } = await laggingMember();
    const etcd = open();
    await etcd.get(name);
    const reads = [op.get(name, SERIALIZABLE), op.range(prefix(name), SERIALIZABLE)] as const;
    const { responses } = await etcd.txn({ then: reads }, { endpoint: behind });
    expect([responses[0]?.text(), responses[1]?.kvs[0]?.text()]).toEqual(['new', 'new']);
    const inside = etcd.namespace(name.slice(0, 5));
    expect((await inside.get(name.slice(5), { ...SERIALIZABLE, endpoint: behind }))?.text()).toBe('new');
  });

  test('compares with current data in a transaction without operations', async () => {
    const { open, behind, name, asked } = await laggingMember();
    const etcd = open();
    await etcd.get(name);
    asked.length = 0;
    const equal = { result: rawEnums.CompareResult.EQUAL, target: rawEnums.CompareTarget.VALUE } as const;
    const value = { case: 'value', value: Buffer.from('new') } as const;
    const condition = { ...equal, key: Buffer.from(name), targetUnion: value };
    const result = await etcd.raw.kv.txn({ compare: [condition] }, { endpoint: behind });
    expect(result).toMatchObject({ succeeded: true, responses: [] });
    expect(asked).toEqual([`${behind} serializable`, `${behind} linearizable with a leader`]);
  });

  test('ends at its time limit, or when its signal aborts, while no leader answers the linearizable read', async () => {
    const { open, behind, name } = await laggingMember({ hasLeader: false });
    const etcd = open();
    await etcd.put(name, 'newer');
    const read = { ...SERIALIZABLE, endpoint: behind };
    expect(await errorOf(etcd.get(name, { ...read, timeoutMs: 100 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    const stop = new AbortController();
    const canceled = errorOf(etcd.get(name, { ...read, signal: stop.signal }));
    stop.abort(new Error('enough'));
    expect(await canceled).toMatchObject({ reason: 'Canceled', cause: { message: 'enough' } });
  });

  test('may return older data than a read that began later and ended earlier', async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { open, behind, name, asked } = await laggingMember({ held });
    const etcd = open();
    const slow = etcd.get(name, { ...SERIALIZABLE, endpoint: behind });
    await expect.poll(() => asked).toEqual([`${behind} serializable`]);
    const quick = await etcd.get(name);
    release();
    expect([quick?.text(), (await slow)?.text()]).toEqual(['new', 'old']);
    expect((await etcd.get(name, { ...SERIALIZABLE, endpoint: behind }))?.text()).toBe('new');
  });

  test('is sent only once when its member is up to date, even while other clients write', async () => {
    const { open, name, asked, member } = await laggingMember();
    const [etcd, writer] = [open(), openClient()];
    for (let round = 0; round < 10; round += 1) {
      const writes = Promise.all(Array.from({ length: 20 }, (_, index) => writer.put(name, String(index))));
      await Promise.all(Array.from({ length: 50 }, () => etcd.range(name, { ...SERIALIZABLE, endpoint: member })));
      await writes;
    }
    expect(asked).toEqual(Array(10 * 50).fill(`${member} serializable`));
  });
});

test('a client with `orderedReads` accepts the grant of a lease by a member that lags behind, also after a restore', async () => {
  const cluster = new ClusterIdentity();
  const put = { method: methods.kv.put, request: {} };
  const header = (revision: bigint): ResponseHeader => ({ clusterId: 1n, memberId: 1n, raftTerm: 1n, revision });
  const granted = { header: header(5n), id: 7n, ttl: 60n, error: '' };
  const inner = { unary: async () => granted } as unknown as Transport;
  const { unary } = withOrderedReads(inner, cluster);
  cluster.answered(put, header(9n), 0n, 'a');
  // The store goes back from revision 9 to revision 8.
  cluster.answered(put, header(8n), 9n, 'a');
  const call = { method: methods.lease.leaseGrant, request: { ttl: 60n }, timeoutMs: 1_000, deadline: 1_000 };
  expect(await unary(call)).toBe(granted);
});

interface Lagging {
  /** Opens a client of both members, with `orderedReads`. */
  readonly open: (options?: { readonly orderedReads: boolean }) => Client;
  /** The URL of a member that is up to date, and the URL of a member that lags behind. */
  readonly member: string;
  readonly behind: string;
  /** A key whose value is "new", and "old" in the data of the member that lags behind. */
  readonly name: string;
  /**
   * For each read, the URL of the member that received it, whether it was serializable or linearizable, and whether it
   * required a leader.
   */
  readonly asked: string[];
}

/**
 * Returns two members. One of them answers serializable reads from an older revision, once `held` has resolved. Without
 * `hasLeader`, linearizable reads have no answer.
 */
async function laggingMember({ held = Promise.resolve(), hasLeader = true } = {}): Promise<Lagging> {
  const [member = ''] = inject('endpoints');
  const behind = (await faultProxy(member)).endpoint;
  const [writer, name, asked] = [openClient(), unique('ordered'), [] as string[]];
  const { revision } = (await writer.put(name, 'old')).header;
  await writer.put(name, 'new');
  const transport: TransportFactory = (endpoint, options) => {
    const inner = defaultTransport(endpoint, options);
    return {
      unary: async <Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> => {
        const isRead = !/Put/.test(call.method.path);
        if (isRead)
          asked.push(`${endpoint.url} ${isLinearizable(call) ? 'linearizable' : 'serializable'}${leader(call)}`);
        if (isRead && isLinearizable(call) && !hasLeader) return beforeSending(call, new Promise<never>(() => {}));
        if (isLinearizable(call) || endpoint.url !== behind) return inner.unary(call);
        const response = await inner.unary({ ...call, request: asOf(call.request, revision) as Init<Request> });
        await held;
        const { header } = response as { readonly header: ResponseHeader };
        return { ...response, header: { ...header, revision } };
      },
      stream: (call, handler) => inner.stream(call, handler),
      close: () => inner.close(),
    };
  };
  const open = ({ orderedReads } = { orderedReads: true }): Client =>
    openClient({ endpoints: [member, behind], balance: 'in-order', orderedReads, transport });
  return { open, member, behind, name, asked };
}

function leader({ metadata }: UnaryCall<unknown, unknown>): string {
  return metadata?.hasleader === 'true' ? ' with a leader' : '';
}

/** Returns the read as a read of an older revision. */
function asOf(request: unknown, revision: bigint): Init<RangeRequest> | Init<TxnRequest> {
  const { key, success = [], failure = [] } = request as Init<RangeRequest> & Init<TxnRequest>;
  if (key !== undefined) return { ...(request as Init<RangeRequest>), revision };
  const older = ({ request: read }: Init<RequestOp>): Init<RequestOp> =>
    read?.case === 'requestRange' ? { request: { case: 'requestRange', value: { ...read.value, revision } } } : {};
  return { ...(request as Init<TxnRequest>), success: success.map(older), failure: failure.map(older) };
}
