import { Client, credentials } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { startEtcd } from '../../../scripts/etcd.js';
import { listen, MemoryEtcd } from '../../../src/testing/index.js';
import { health } from '../../../src/testing/memory/health-service.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import { encode } from '../../../src/wire/protobuf/writer.js';

// These tests call the service `grpc.health.v1.Health` of a `MemoryEtcd`, as Kubernetes and gRPC clients do. The
// answers must be those of a real etcd.

/** Opens a client of the service. Each function resolves with the status of the health, or with the gRPC error. */
function openHealth(endpoint: string): Record<'check' | 'watch', (service: string) => Promise<unknown>> {
  const client = new Client(new URL(endpoint).host, credentials.createInsecure());
  onTestFinished(() => client.close());
  const serialize = (service: string): Buffer => Buffer.from(encode(health.check.request, { service }));
  const deserialize = (bytes: Buffer): number => decode(health.check.response, bytes).status;
  return {
    check: (service) =>
      new Promise((resolve) => {
        client.makeUnaryRequest(health.check.path, serialize, deserialize, service, (error, status) =>
          resolve(error === null ? status : [error.code, error.details]),
        );
      }),
    watch: (service) =>
      new Promise((resolve) => {
        const stream = client.makeServerStreamRequest(health.watch.path, serialize, deserialize, service);
        const received: unknown[] = [];
        stream.on('error', (error) => received.push(error.message)).on('end', () => resolve(['ended', ...received]));
        stream.on('data', (status) => {
          received.push(status);
          // The stream must still be open after an answer to another call.
          client.makeUnaryRequest(health.check.path, serialize, deserialize, '', () => {
            resolve([...received]);
            stream.cancel();
          });
        });
      }),
  };
}

test('Check and Watch report the health of the whole server, and know no other service, as in a real etcd', async () => {
  await using real = await startEtcd();
  await using memory = await listen(new MemoryEtcd());
  const [actual, expected] = await Promise.all(
    [memory.endpoint, real.endpoints[0] as string].map(async (endpoint) => {
      const { check, watch } = openHealth(endpoint);
      const services = ['', 'etcdserverpb.KV'];
      return Promise.all(services.flatMap((service) => [check(service), watch(service)]));
    }),
  );
  expect(actual).toEqual([1, [1], [5, 'unknown service'], [3]]);
  expect(actual).toEqual(expected);
});
