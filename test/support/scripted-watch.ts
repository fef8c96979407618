import type { WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import type { Client, ClientOptions } from '../../src/index.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import { openClient } from './client.js';
import { type ScriptedStream, scriptedServer, scriptedStream } from './scripted-server.js';

/** A watch stream, as a scripted server sees it. */
export type WatchedStream = ScriptedStream<WatchRequest, WatchResponse>;

/** Opens a client for a scripted server that runs `play` for each watch stream. */
export async function clientOf(
  play: (stream: WatchedStream) => Promise<void>,
  options: Partial<ClientOptions> = {},
): Promise<Client> {
  return openClient({ ...options, endpoints: [await scriptedServer(scriptedStream(methods.watch.watch, play))] });
}

/** Receives the next message, which must be a create request. Resolves with the content of that request. */
export async function creation(
  stream: WatchedStream,
): Promise<{ watchId: bigint; startRevision: bigint; fragment: boolean }> {
  const { requestUnion } = await stream.receive();
  if (requestUnion?.case !== 'createRequest') throw new Error(`expected a create request, got ${requestUnion?.case}`);
  return requestUnion.value;
}

export async function createdId(stream: WatchedStream): Promise<bigint> {
  return (await creation(stream)).watchId;
}

export function header(revision: bigint): Init<WatchResponse> {
  return { header: { revision } };
}

/** Returns the event for a put of `key` at the revision `modRevision`. */
export function put(key: string, modRevision: bigint): { kv: { key: Uint8Array; modRevision: bigint } } {
  return { kv: { key: new TextEncoder().encode(key), modRevision } };
}
