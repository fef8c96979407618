import {
  type Batches,
  BatchItemIterator,
  type BytesLike,
  type ClientEvent,
  checkFunction,
  checkOptions,
  INSPECT,
  type InspectArguments,
  inspected,
  invalidInput,
  iterate,
  KEYS_HINTS,
  once,
  settledWithin,
  show,
} from '../base/index.js';
import * as kvMethods from '../gen/methods/kv.js';
import {
  CALL_OPTIONS,
  type CallOptions,
  Rpc,
  type WithHeader,
  WRITE_OPTIONS,
  type WriteOptions,
  withHeader,
} from '../rpc/index.js';
import { type Closer, Closers } from './closers.js';
import type { CloseOptions, CoreKeyspace, KeyspaceCore } from './keyspace.js';
import type { KeyValue } from './kv/key-value.js';
import { checkKey, type Keys, resolveKeys, singleKey } from './kv/keys.js';
import {
  DELETE_OPTIONS,
  type DeleteOptions,
  type DeleteResult,
  deleteRequest,
  deleteResult,
  GET_HINTS,
  GET_OPTIONS,
  type GetOptions,
  getResult,
  PUT_HINTS,
  PUT_OPTIONS,
  type PutOptions,
  type PutResult,
  putRequest,
  putResult,
  RANGE_OPTIONS,
  type RangeOptions,
  type RangeResult,
  rangeRequest,
  rangeResult,
  SCAN_HINTS,
  SCAN_OPTIONS,
  type ScanOptions,
} from './kv/requests.js';
import { Scanner, type ScanPage } from './kv/scan.js';
import { type Conditions, type Op, runTxn, type Txn, type TxnResult } from './kv/txn.js';
import {
  CLIENT_HINTS,
  CORE_CLIENT_OPTIONS,
  type CoreClientOptions,
  checkIsObject,
  coreLayers,
  type Embedded,
} from './layers.js';
import { LeaseClient, type Leases } from './lease/leases.js';
import { RenewalStream } from './lease/renewal-stream.js';
import { namespaceCore } from './namespace.js';
import { WATCH_OPTIONS, type Watch, Watches, type WatchOptions } from './watch/watch.js';
import { WatchStream } from './watch/watch-stream.js';

const GET_CALL = { ...GET_OPTIONS, ...CALL_OPTIONS } as const;
const RANGE_CALL = { ...RANGE_OPTIONS, ...CALL_OPTIONS } as const;
const SCAN_CALL = { ...SCAN_OPTIONS, ...CALL_OPTIONS } as const;
const PUT_CALL = { ...PUT_OPTIONS, ...WRITE_OPTIONS } as const;
const DELETE_CALL = { ...DELETE_OPTIONS, ...WRITE_OPTIONS } as const;

const ONLY_FULL = 'only the Client of etcdwire has this option';
const CORE_CLIENT_HINTS = {
  ...CLIENT_HINTS,
  orderedReads: ONLY_FULL,
  retryWrites: ONLY_FULL,
  autoSyncIntervalMs: ONLY_FULL,
  allowEndpoint: ONLY_FULL,
} as const;

const CLOSE_OPTIONS = { drainMs: checkDrainMs } as const;
/** Default of `drainMs`. */
const DRAIN_MS = 2_000;

/**
 * A client of one etcd cluster for keys, watches and leases. The functions and classes of `etcdwire/locks` and
 * `etcdwire/recipes` accept this client, too. The `Client` of `etcdwire` extends this class with the other services of
 * etcd, and with more options. The client connects when the program makes the first call.
 *
 * Close the client after use, or declare it with `await using`. As long as the client is open, its watches and
 * keepalives keep the process running.
 *
 * @example
 * import { CoreClient } from 'etcdwire/core';
 *
 * await using etcd = new CoreClient({ endpoints: ['http://127.0.0.1:2379'] });
 * await etcd.put('config/color', 'blue');
 * const color = (await etcd.get('config/color'))?.text();
 */
export class CoreClient implements CoreKeyspace {
  readonly lease: Leases;
  /** @internal The same object as `lease`, with its internal methods. */
  readonly leaseClient: LeaseClient;
  /** @internal A namespace is a `CoreClient`, too. Its `core` has a prefix. */
  readonly core: KeyspaceCore;
  /** @internal */
  readonly rpc: Rpc;
  /** @internal */
  readonly watches: Watches;
  readonly #scanner: Scanner;
  /** The closers of this keyspace. The closers of a client and all its namespaces are in `core.closers`. */
  readonly #closers = new Closers();
  readonly #close = once((drainMs: number, closedAt: Error) => this.#end(drainMs, closedAt));

  /** @throws EtcdError, reason `InvalidInput`, if an option is missing, unknown or out of range. */
  constructor(options?: CoreClientOptions | Embedded<CoreClientOptions>);
  /** @internal */
  constructor(options: undefined, core: KeyspaceCore);
  constructor(options: CoreClientOptions | Embedded<CoreClientOptions> = {}, core = coreOf(options)) {
    this.rpc = new Rpc(core.guarding?.(core) ?? core.transport, core.settings, core.retrying?.(core));
    const { watchStream = new WatchStream(this.rpc), renewals = new RenewalStream(this.rpc) } = core;
    this.core = { ...core, watchStream, renewals };
    this.#scanner = new Scanner(this.rpc, core.maxReceiveBytes, core.isIntercepted);
    this.watches = new Watches(watchStream, core.prefix);
    this.leaseClient = new LeaseClient(this.rpc, renewals);
    this.lease = this.leaseClient;
  }

  async get(key: BytesLike, options: GetOptions & CallOptions = {}): Promise<KeyValue | undefined> {
    checkOptions(options, GET_CALL, 'get', GET_HINTS);
    const request = rangeRequest(singleKey(checkKey(key, 'key')), options);
    return getResult(await this.rpc.call(kvMethods.range, request, options));
  }

  async range(keys: Keys, options: RangeOptions & CallOptions = {}): Promise<WithHeader<RangeResult>> {
    checkOptions(options, RANGE_CALL, 'range', KEYS_HINTS);
    const request = rangeRequest(resolveKeys(keys, 'keys'), options);
    const response = await this.rpc.call(kvMethods.range, request, options);
    return withHeader(response.header, rangeResult(response));
  }

  scan(keys: Keys, options: ScanOptions & CallOptions = {}): AsyncIterableIterator<KeyValue> {
    checkOptions(options, SCAN_CALL, 'scan', SCAN_HINTS);
    return new BatchItemIterator(this.scanPages(keys, options), ({ kvs }) => kvs);
  }

  /** @internal */
  scanPages(keys: Keys, options: ScanOptions & CallOptions): AsyncGenerator<ScanPage, void> & Batches<ScanPage> {
    const range = resolveKeys(keys, 'keys');
    const request = rangeRequest(range, options);
    return iterate(options.signal, (signal) => this.#scanner.pages(range, request, { ...options, signal }));
  }

  async put(key: BytesLike, value: BytesLike, options: PutOptions & WriteOptions = {}): Promise<WithHeader<PutResult>> {
    checkOptions(options, PUT_CALL, 'put', PUT_HINTS);
    const response = await this.rpc.call(kvMethods.put, putRequest(key, value, options), options);
    return withHeader(response.header, putResult(response));
  }

  async delete(keys: Keys, options: DeleteOptions & WriteOptions = {}): Promise<WithHeader<DeleteResult>> {
    checkOptions(options, DELETE_CALL, 'delete', KEYS_HINTS);
    const response = await this.rpc.call(kvMethods.deleteRange, deleteRequest(keys, options), options);
    return withHeader(response.header, deleteResult(response));
  }

  txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options: WriteOptions = {}): Promise<WithHeader<TxnResult<If, Then, Else>>> {
    return runTxn(this.rpc, this.core.maxTxnOps, txn, options);
  }

  watch(keys: Keys, options: WatchOptions = {}): Watch {
    checkOptions(options, WATCH_OPTIONS, 'watch', KEYS_HINTS);
    return this.watches.open(keys, options);
  }

  namespace(prefix: BytesLike): CoreKeyspace {
    return new CoreClient(undefined, namespaceCore(this.core, prefix));
  }

  /** Returns the fields that `JSON.stringify` writes: the endpoints, and which of them are unavailable now. */
  toJSON(): { readonly endpoints: readonly string[]; readonly unavailable: readonly string[] };
  toJSON(): object {
    const { endpoints, unavailable } = this.core.channel;
    // A namespace does not show its prefix, because logs must not contain parts of keys.
    return this.#isNamespace ? {} : { endpoints, unavailable };
  }

  /** @internal */
  [INSPECT](...args: InspectArguments): string {
    return inspected(this.#isNamespace ? 'Keyspace' : 'Client', this.toJSON(), ...args);
  }

  /**
   * Calls `listener` for each event of the client and its namespaces, such as a lost lease or a watch that waits for a
   * server. The option `logger` logs the same events. The client ignores errors of the listener. Returns a function that
   * removes the listener.
   *
   * @example
   * const off = etcd.onEvent((event) => {
   *   if (event.type === 'endpoint unavailable') console.error(event.endpoint, event.problem);
   * });
   * off();
   */
  onEvent(listener: (event: ClientEvent) => void): () => void {
    checkFunction(listener, 'listener');
    return this.core.settings.events.addForeign(listener);
  }

  /** URLs of the endpoints in use. The option `endpoint` of a call accepts one of these URLs. */
  get endpoints(): readonly string[] {
    return this.core.channel.endpoints;
  }

  /**
   * Replaces the endpoints, for example after members were moved. Watches, leases and locks continue: streams, and
   * attempts of calls, that are in progress stay at their endpoints until they end. New streams and attempts use the
   * new endpoints. `urls` has the form of the option `endpoints`. A later `sync`, also one of `autoSyncIntervalMs`,
   * replaces the endpoints again.
   *
   * @throws EtcdError with reason `InvalidInput` if an endpoint is invalid, or if `auth` does not allow it, or with
   * reason `ClientClosed` after `close`.
   *
   * @example
   * etcd.setEndpoints(['http://127.0.0.1:2379', 'http://127.0.0.1:22379']);
   */
  setEndpoints(urls: readonly string[]): void {
    this.rpc.checkOpen();
    this.core.setEndpoints(urls);
  }

  /**
   * @internal Registers `closer` to run when the keyspace or its client closes. Returns a function that removes
   * `closer`.
   */
  beforeClose(closer: Closer): () => void {
    const undos = [this.#closers, this.core.closers].map((closers) => closers.add(closer));
    return () => {
      for (const undo of undos) undo();
    };
  }

  /**
   * Closes the client and its namespaces. From now on, the client refuses new calls with reason `ClientClosed`, and ends
   * all watches. The signals of sessions and locks abort, and `lead`, `work` and similar functions end as if their own
   * signal had aborted. Then waits, at most `drainMs`, until calls in flight have ended, these functions have returned
   * and all locks are released, and closes the connections.
   *
   * A session revokes its lease, which frees its locks at once, only if it holds no lock any longer. The other leases
   * expire, so that no other client gets a lock while an action of this program still runs. A second call returns the
   * promise of the first.
   *
   * @example
   * process.once('SIGTERM', () => void etcd.close({ drainMs: 10_000 }));
   */
  async close(options: CloseOptions = {}): Promise<void> {
    checkOptions(options, CLOSE_OPTIONS, 'close');
    // A call that nothing awaits fails with an error whose stack does not show the program.
    return this.#close(options.drainMs ?? DRAIN_MS, new Error('the client was closed here'));
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #isNamespace(): boolean {
    return this.core.prefix.length > 0;
  }

  async #end(drainMs: number, closedAt: Error): Promise<void> {
    const { closers, renewals, watchStream, channel, abortClosed, transport } = this.core;
    if (this.#isNamespace) {
      const done = this.#closers.close();
      this.watches.close();
      await settledWithin(drainMs, done);
      return this.leaseClient.close();
    }
    const done = closers.close();
    watchStream?.close();
    // What the closers wait for may make further calls.
    await settledWithin(
      drainMs,
      done.then(() => channel.idle()),
    );
    renewals?.close();
    channel.closedAt = closedAt;
    abortClosed();
    await transport.close();
  }
}

function checkDrainMs(drainMs: number, argument: string): void {
  if (typeof drainMs !== 'number' || !(drainMs >= 0))
    throw invalidInput(argument, show(drainMs), 'a number of milliseconds, 0 or more');
}

function coreOf(options: CoreClientOptions | Embedded<CoreClientOptions>): KeyspaceCore {
  checkIsObject(options);
  checkOptions(options, CORE_CLIENT_OPTIONS, 'Client', CORE_CLIENT_HINTS);
  return coreLayers(options);
}
