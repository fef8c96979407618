import { once } from 'node:events';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import {
  CompareResult,
  CompareTarget,
  type WatchRequest,
  type WatchResponse,
} from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import type { Codec, Method } from '../../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../../src/wire/protobuf/writer.js';
import { type BenchClient, LEASE_TTL, type OnEvent, UNLIMITED_RESPONSES } from './bench-client.js';

/**
 * Opens a client that uses only grpc-js and the generated codecs. No client that uses grpc-js can be faster.
 *
 * @param ca The authority that signs the server's certificate, if the client connects with TLS.
 */
export function openBareGrpcJs(endpoint: string, ca?: Buffer): BenchClient {
  const channelCredentials = ca === undefined ? credentials.createInsecure() : credentials.createSsl(ca);
  const client = new Client(new URL(endpoint).host, channelCredentials, UNLIMITED_RESPONSES);
  const call = <Request, Response>(method: Method<Request, Response>, request: Init<Request>): Promise<Response> =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        method.path,
        encoder(method.request),
        decoder(method.response),
        request,
        (error, response) => {
          if (response === undefined) reject(error);
          else resolve(response);
        },
      );
    });
  const open = <Request, Response>(method: Method<Request, Response>): ClientDuplexStream<Init<Request>, Response> =>
    client.makeBidiStreamRequest(method.path, encoder(method.request), decoder(method.response));
  let watches: Watches | undefined;
  return {
    get: async (key) => (await call(methods.kv.range, { key: Buffer.from(key) })).kvs[0]?.value.length ?? 0,
    put: (key, value) => call(methods.kv.put, { key: Buffer.from(key), value }),
    txn: async (name, value) => {
      const key = Buffer.from(name);
      const exists = {
        key,
        target: CompareTarget.CREATE,
        result: CompareResult.GREATER,
        targetUnion: { case: 'createRevision', value: 0n },
      } as const;
      const put = { request: { case: 'requestPut', value: { key, value } } } as const;
      return (await call(methods.kv.txn, { compare: [exists], success: [put] })).succeeded;
    },
    scan: async (prefix) => {
      const { kvs } = await call(methods.kv.range, rangeOf(prefix));
      return kvs.filter(({ value }) => value.length > 0).length;
    },
    watch: (watched, onEvent, startRevision) => {
      watches ??= new Watches(open(methods.watch.watch));
      return watches.add(
        'key' in watched ? { key: Buffer.from(watched.key) } : rangeOf(watched.prefix),
        onEvent,
        startRevision,
      );
    },
    lease: async () => {
      const { id } = await call(methods.lease.leaseGrant, { ttl: BigInt(LEASE_TTL) });
      return async () => {
        const stream = open(methods.lease.leaseKeepAlive);
        stream.write({ id });
        await once(stream, 'data');
        stream.end();
      };
    },
  };
}

/** The watches of a client, which share one stream. The server confirms creations in the order of the requests. */
class Watches {
  readonly #stream: ClientDuplexStream<Init<WatchRequest>, WatchResponse>;
  readonly #creating: ((watchId: bigint) => void)[] = [];
  readonly #onEvent = new Map<bigint, OnEvent>();

  constructor(stream: ClientDuplexStream<Init<WatchRequest>, WatchResponse>) {
    this.#stream = stream;
    stream.on('data', ({ watchId, created, events }: WatchResponse) => {
      if (created) return this.#creating.shift()?.(watchId);
      const onEvent = this.#onEvent.get(watchId);
      for (const { kv } of events) if (kv !== undefined) onEvent?.(kv.value);
    });
  }

  add(range: Partial<Range>, onEvent: OnEvent, startRevision: bigint | undefined): Promise<() => Promise<unknown>> {
    this.#stream.write({ requestUnion: { case: 'createRequest', value: { ...range, startRevision } } });
    return new Promise((resolve) => {
      this.#creating.push((watchId) => {
        this.#onEvent.set(watchId, onEvent);
        resolve(async () => {
          this.#onEvent.delete(watchId);
          this.#stream.write({ requestUnion: { case: 'cancelRequest', value: { watchId } } });
        });
      });
    });
  }
}

interface Range {
  readonly key: Buffer;
  readonly rangeEnd: Buffer;
}

function rangeOf(prefix: string): Range {
  const rangeEnd = Buffer.from(prefix);
  rangeEnd.writeUInt8(rangeEnd.readUInt8(rangeEnd.length - 1) + 1, rangeEnd.length - 1);
  return { key: Buffer.from(prefix), rangeEnd };
}

function encoder<T>(codec: Codec<T>): (message: Init<T>) => Buffer {
  return (message) => {
    const bytes = encode(codec, message);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
}

function decoder<T>(codec: Codec<T>): (bytes: Buffer) => T {
  return (bytes) => decode(codec, bytes);
}
