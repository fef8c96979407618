import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  connectivityState,
  credentials,
  Metadata,
} from '@grpc/grpc-js';
import { after, NO_BYTES } from '../../../base/index.js';
import { type Endpoint, serverNameOf, type TlsOptions, tlsForDial } from '../../../host/index.js';
import { checkName } from '../../../host/node.js';
import { connectFailed, type TransportOptions } from '../../../wire/index.js';

const { READY, TRANSIENT_FAILURE } = connectivityState;

/** Returns a Buffer that shares the memory of `bytes`. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/**
 * The grpc-js channel of one endpoint. By default, grpc-js reconnects a failed channel with its own backoff. This class
 * discards a failed channel instead, because the channel layer of this package decides when to dial again, and where.
 */
export class GrpcJsConnection {
  readonly #endpoint: Endpoint;
  readonly #options: TransportOptions;
  #client: Client | undefined;
  #dialing: Promise<Client> | undefined;
  #abandonDial: () => void = () => {};

  constructor(endpoint: Endpoint, options: TransportOptions) {
    this.#endpoint = endpoint;
    this.#options = options;
  }

  /** The grpc-js client of the channel, if the channel is connected. Undefined otherwise. */
  get ready(): Client | undefined {
    return this.#client?.getChannel().getConnectivityState(false) === READY ? this.#client : undefined;
  }

  /**
   * Resolves with the grpc-js client of a connected channel. If no channel is connected, dials, or waits for the dial
   * that is under way.
   *
   * @throws EtcdError with reason `ConnectFailed` and outcome `not-sent` if the dial fails.
   */
  async connect(): Promise<Client> {
    const { ready } = this;
    if (ready !== undefined) return ready;
    this.#dialing ??= this.#dial().finally(() => {
      this.#dialing = undefined;
    });
    return this.#dialing;
  }

  close(): void {
    this.#abandonDial();
    this.#drop();
  }

  #dial(): Promise<Client> {
    const { connectTimeoutMs, tls } = this.#options;
    return new Promise((resolve, reject) => {
      let settled = false;
      const fail = (problem: string, cause?: unknown): void => {
        if (settled) return;
        settled = true;
        stopTimer();
        this.#drop();
        reject(connectFailed(this.#endpoint, problem, cause));
      };
      this.#abandonDial = () => fail('closed while connecting');
      // grpc-js itself waits forever for a peer that accepts the connection but never sends SETTINGS (grpc-node#2785).
      const stopTimer = after(connectTimeoutMs, () => fail(`no answer within connectTimeoutMs = ${connectTimeoutMs}`));
      const look = (client: Client): void => {
        if (settled) return;
        const channel = client.getChannel();
        const state = channel.getConnectivityState(true);
        if (state === READY) {
          settled = true;
          stopTimer();
          resolve(client);
        } else if (state === TRANSIENT_FAILURE) lastError(client, fail);
        else channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => look(client));
      };
      const dial = (known?: TlsOptions): void => {
        if (settled) return;
        // Open a new channel, because the old one has the old certificates. Calls on the old channel continue.
        this.#drop();
        this.#client = this.#openClient(known);
        look(this.#client);
      };
      (this.#endpoint.tls ? tlsForDial(tls) : Promise.resolve(undefined))
        .then(dial)
        .catch((error: Error) => fail(error.message, error.cause ?? error));
    });
  }

  #drop(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  #openClient(tls: TlsOptions | undefined): Client {
    return new Client(target(this.#endpoint), channelCredentials(this.#endpoint, tls), {
      ...channelOptions(this.#options),
      ...(this.#endpoint.tls ? { 'grpc.ssl_target_name_override': serverNameOf(this.#endpoint, tls) } : {}),
    });
  }
}

/**
 * Reports why the channel failed. grpc-js gives the reason only as the status of a call, so this function makes a call,
 * which fails at once.
 */
function lastError(client: Client, report: (problem: string) => void): void {
  const call = client.makeUnaryRequest('/etcdwire/unsent', asBuffer, asBuffer, NO_BYTES, new Metadata(), (error) => {
    report(connectProblem(error?.details ?? 'connection failed'));
  });
  call.on('error', () => {});
}

/**
 * Extracts the reason from a status text of grpc-js. For example, the reason in "No connection established. Last error:
 * Error: connect ECONNREFUSED 127.0.0.1:1. Resolution note: " is "connect ECONNREFUSED 127.0.0.1:1".
 */
function connectProblem(details: string): string {
  return details
    .replace(/^No connection established\. (Last error: )?(Error( \[\w+\])?: )?/, '')
    .replace(/ \(\d{4}-.*\)|\.? Resolution note: .*$/g, '');
}

/** Maximum delay of `setTimeout` in milliseconds, which grpc-js uses without a check: with a longer one, it fires at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/**
 * Returns the options of a channel. Each channel has only one endpoint, because for a list of addresses, grpc-js checks
 * every certificate against the name of the first address. The options disable proxies from the environment and service
 * configuration from DNS, so that only the client's own options decide where a call goes.
 */
function channelOptions(options: TransportOptions): ChannelOptions {
  return {
    'grpc.keepalive_time_ms': options.pingIntervalMs,
    'grpc.keepalive_timeout_ms': Math.min(options.pingTimeoutMs, MAX_DELAY_MS),
    'grpc.max_receive_message_length': options.maxReceiveBytes,
    'grpc.max_send_message_length': -1,
    'grpc.enable_http_proxy': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_channelz': 0,
  };
}

function target({ address }: Endpoint): string {
  if ('path' in address) return `unix:${address.path}`;
  if (address.host.includes(':')) return `ipv6:[${address.host}]:${address.port}`;
  const scheme = /^[\d.]+$/.test(address.host) ? 'ipv4' : 'dns';
  return `${scheme}:${address.host}:${address.port}`;
}

function channelCredentials(endpoint: Endpoint, tls: TlsOptions | undefined): ChannelCredentials {
  if (!endpoint.tls) return credentials.createInsecure();
  const pem = (value: string | Uint8Array | undefined): Buffer | null =>
    value === undefined ? null : Buffer.from(value);
  return credentials.createSsl(pem(tls?.ca), pem(tls?.key), pem(tls?.cert), {
    checkServerIdentity: checkName,
    rejectUnauthorized: true,
  });
}
