import { startEtcd } from '../../scripts/etcd.js';
import { EtcdError } from '../../src/base/etcd-error.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import type { RunningEtcd } from '../../src/testing/index.js';
import type { MemoryVersion } from '../../src/testing/memory/settings.js';
import { defaultTransport } from '../../src/wire/default-transport.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import {
  type Metadata,
  type OutgoingStream,
  TRANSPORT_DEFAULTS,
  type Transport,
  type TransportOptions,
} from '../../src/wire/transport.js';
import { storageVersionRaised } from '../support/storage-version.js';
import { rpc } from './methods.js';

/** A server of one version, at which sequences are played. */
export interface Target {
  /** Name in reports, such as "etcd 3.6.14". */
  readonly name: string;
  readonly version: MemoryVersion;
  /** Returns the server for the next sequence: the same server as before, or a new one. */
  next(): Server | Promise<Server>;
  close(): Promise<void>;
}

/** A running server, with a record of the services whose state the last sequence may have changed. */
export interface Server {
  readonly connection: Connection;
  /** The services that the last sequence called. A new server has not been called yet. */
  readonly called: Set<string>;
  /** The peer URL that the server had at the start. */
  peerUrls: string[] | undefined;
}

/** The time limit of a call in milliseconds. A call that takes longer at one server only is a difference. */
const CALL_LIMIT_MS = 10_000;
/** The limit is so large that the client sends requests that the server must refuse. */
const MAX_REQUEST_BYTES = 64 * 2 ** 20;

export const CONNECTION_OPTIONS: TransportOptions = {
  ...TRANSPORT_DEFAULTS,
  tls: undefined,
  maxRequestBytes: MAX_REQUEST_BYTES,
};

/** The fields of a message. The types are unknown, because steps name their RPC by a text. */
export type Message = Record<string, unknown>;

/** The answer of a server to a call: messages, and the error with which the call ended. */
export interface Outcome {
  readonly messages: readonly Message[];
  readonly error: EtcdError | undefined;
}

/** An open streaming call. `messages` contains the messages that have arrived. */
export interface OpenStream {
  readonly outgoing: OutgoingStream<Message>;
  readonly messages: Message[];
  /** Whether the stream has ended. */
  ended: boolean;
  error: EtcdError | undefined;
}

/** Makes calls by the name of the RPC. */
export class Connection {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async unary(name: string, request: Message, token?: string, metadata: Metadata = {}): Promise<Outcome> {
    const call = {
      method: rpc(name),
      request: request as Init<Message>,
      metadata: { ...metadataOf(token), ...metadata },
      timeoutMs: CALL_LIMIT_MS,
      deadline: performance.now() + CALL_LIMIT_MS,
    };
    try {
      return { messages: [await this.#transport.unary(call)], error: undefined };
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      return { messages: [], error };
    }
  }

  /** Opens a stream. Calls `arrived` after each message and at the end. */
  open(name: string, token: string | undefined, arrived: () => void): OpenStream {
    const messages: Message[] = [];
    const outgoing = this.#transport.stream<Message, Message>(
      { method: rpc(name), metadata: metadataOf(token) },
      {
        message: (message) => {
          messages.push(message);
          arrived();
        },
        end: (error) => {
          stream.ended = true;
          stream.error = error;
          arrived();
        },
      },
    );
    const stream: OpenStream = { outgoing, messages, ended: false, error: undefined };
    return stream;
  }

  /** Makes a server-streaming call, and reads it to its end. */
  collect(name: string, request: Message, token?: string): Promise<Outcome> {
    return new Promise((resolve) => {
      const stream = this.open(name, token, () => {
        if (stream.ended) resolve({ messages: stream.messages, error: stream.error });
      });
      stream.outgoing.send(request as Init<Message>);
      stream.outgoing.end();
    });
  }

  close(): Promise<void> {
    return this.#transport.close();
  }
}

function metadataOf(token: string | undefined): Metadata {
  return token === undefined ? {} : { token };
}

/** Arguments that make etcd faster. They change no response. */
export const FAST = ['--bcrypt-cost=4'];

/**
 * Starts a real etcd for all sequences. If a sequence ends the process of the server, starts a new server for the next
 * sequence.
 */
export async function realTarget(version: MemoryVersion): Promise<Target> {
  let current = await startServer(version);
  return {
    name: `etcd ${current.etcd.version ?? version}`,
    version,
    next: async () => {
      if (current.etcd.members.some(({ running }) => !running)) {
        await current.close();
        current = await startServer(version);
      }
      return current.server;
    },
    close: () => current.close(),
  };
}

interface StartedServer {
  readonly etcd: RunningEtcd;
  readonly server: Server;
  readonly close: () => Promise<void>;
}

async function startServer(version: MemoryVersion): Promise<StartedServer> {
  const etcd = await startEtcd({ version, args: FAST });
  const [endpoint = ''] = etcd.endpoints;
  if (etcd.cluster === undefined)
    throw new Error('the differential test changes users and alarms, so it needs an etcd that it starts itself');
  await storageVersionRaised(etcd.endpoints);
  const server = serverOf(defaultTransport(parseEndpoint(endpoint, 'endpoint'), CONNECTION_OPTIONS));
  const close = async (): Promise<void> => {
    await server.connection.close();
    await etcd.close();
  };
  return { etcd, server, close };
}

export function serverOf(transport: Transport): Server {
  return { connection: new Connection(transport), called: new Set(), peerUrls: undefined };
}
