import { credentials, Client as GrpcClient, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { registerGrpcResolver } from '../../../src/grpc-js.js';
import { Session } from '../../../src/locks.js';
import { Service, type ServiceView, type ViewOptions } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

const PATH = '/test.Echo/Name';

/** Returns a service with instances of the given IDs, and a view of it. */
async function viewed(ids: readonly string[], options?: ViewOptions) {
  const etcd = openClient();
  const service = new Service(etcd, unique('services/api'));
  const session = await Session.open(etcd);
  const register = (id: string) => service.register(session, id, { address: `${id}:80`, metadata: id });
  for (const id of ids) await register(id);
  const view = await service.view(options);
  onTestFinished(() => view.close());
  return { etcd, service, view, register };
}

function picks(view: ServiceView, count: number): readonly (string | undefined)[] {
  return Array.from({ length: count }, () => view.pick()?.id);
}

test('a view picks all endpoints in turn, and goes on in that order when endpoints come and go', async () => {
  const { view, register } = await viewed(['a', 'b', 'd']);
  expect(picks(view, 4)).toEqual(['a', 'b', 'd', 'a']);
  const added = await register('c');
  await expect.poll(() => [...view.endpoints.keys()]).toEqual(['a', 'b', 'c', 'd']);
  expect(view.endpoints.get('c')).toEqual({ address: 'c:80', metadata: 'c' });
  expect(picks(view, 2)).toEqual(['b', 'c']);
  await added.close();
  await expect.poll(() => view.endpoints.size).toBe(3);
  expect(picks(view, 3)).toEqual(['d', 'a', 'b']);
});

test('a view with `least-used` picks the endpoint with the fewest picks that are not done', async () => {
  const { view } = await viewed(['a', 'b'], { picking: 'least-used' });
  const [first, second, third] = [view.pick(), view.pick(), view.pick()];
  expect([first?.id, second?.id, third?.id]).toEqual(['a', 'b', 'a']);
  first?.done();
  first?.done();
  third?.done();
  expect(view.pick()?.id).toBe('a');
  expect(view.pick()?.id).toBe('b');
  {
    using picked = view.pick();
    expect(picked?.id).toBe('a');
  }
  expect(view.pick()?.id).toBe('a');
});

test('a view picks nothing while no endpoint is registered, and leaves out values that are not endpoints', async () => {
  const { etcd, service, view } = await viewed([]);
  await etcd.put(`${service.target}/x`, 'not an endpoint');
  expect(view.pick()).toBeUndefined();
  expect(view.endpoints.size).toBe(0);
});

test('a view throws after it was closed, and refuses wrong options', async () => {
  const { service, view } = await viewed(['a']);
  await view.close();
  expect(() => view.pick()).toThrow(/closed/);
  expect(await errorOf(service.view({ picking: 'random' as never }))).toMatchObject({ reason: 'InvalidInput' });
});

test('channels of grpc-js find the instances of a service, and follow their registrations', async () => {
  const etcd = openClient();
  const service = new Service(etcd, unique('services/grpc'));
  const session = await Session.open(etcd);
  /** Starts a server that answers with its name, and registers it. */
  const instance = async (name: string) => {
    const server = new Server();
    const identity = (bytes: Buffer): Buffer => bytes;
    const method = {
      path: PATH,
      requestStream: false,
      responseStream: false,
      requestSerialize: identity,
      requestDeserialize: identity,
      responseSerialize: identity,
      responseDeserialize: identity,
    };
    server.addService(
      { name: method },
      { name: (_: unknown, answer: (e: null, r: Buffer) => void) => answer(null, Buffer.from(name)) },
    );
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      ),
    );
    onTestFinished(() => server.forceShutdown());
    return service.register(session, name, { address: `127.0.0.1:${port}` });
  };
  registerGrpcResolver(etcd);
  await service.register(session, 'not-dialable', { address: 'a path' });
  const first = await instance('first');
  const client = new GrpcClient(`etcd:///${service.target}`, credentials.createInsecure(), {
    'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  });
  onTestFinished(() => client.close());
  const call = (): Promise<string> =>
    new Promise((resolve, reject) =>
      client.makeUnaryRequest(
        PATH,
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes.toString(),
        Buffer.alloc(0),
        (error, answer) => (error === null ? resolve(answer as string) : reject(error)),
      ),
    );
  expect(await call()).toBe('first');
  await instance('second');
  const seen = new Set<string>();
  await expect.poll(async () => seen.add(await call()).size).toBe(2);
  await first.close();
  await expect.poll(async () => [await call(), await call(), await call()]).toEqual(['second', 'second', 'second']);
});

test.each([
  ['the service has no instance', undefined, undefined],
  ['the only instance of the service has no address like host:port', undefined, 'a path'],
  ['etcd does not answer', ['http://127.0.0.1:1'], undefined],
])('calls of a channel of grpc-js fail instead of waiting when %s', async (_what, endpoints, address) => {
  const scheme = unique('scheme');
  const target = unique('services');
  registerGrpcResolver(openClient(endpoints === undefined ? {} : { endpoints }), scheme);
  if (address !== undefined) {
    const etcd = openClient();
    const session = await Session.open(etcd);
    await new Service(etcd, target).register(session, 'instance', { address });
  }
  const client = new GrpcClient(`${scheme}:///${target}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const identity = (bytes: Buffer): Buffer => bytes;
  const error = await new Promise<{ readonly code: number } | null>((resolve) =>
    client.makeUnaryRequest(PATH, identity, identity, Buffer.alloc(0), (failure) => resolve(failure)),
  );
  expect(error?.code).toBe(status.UNAVAILABLE);
});
