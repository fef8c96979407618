import {
  at,
  canceled,
  clientClosed,
  EtcdError,
  errorFromStatus,
  monotonicMs,
  NO_BYTES,
  onAbort,
  textOf,
  timedOut,
} from '../../src/base/index.js';
import type { LeaseKeepAliveRequest, WatchRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { type MemoryEtcd, memory } from '../../src/testing/index.js';
import type {
  EmbeddedTransportFactory,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  UnaryCall,
} from '../../src/wire/index.js';
import { type Carried, type Event, SERVER, type Unplanned, type World, wayOf } from './world.js';

function nameOf({ path }: { readonly path: string }): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function connectionLost(): EtcdError {
  const problem = 'the connection was lost';
  return new EtcdError(problem, { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
}

/** The set of all leases. The ID of a lease depends on the order of the grants. */
export const LEASES = 'the leases';

/** All keys of the store. */
const STORE = 'the store';

export function keyNamed(key: string): string {
  return `key ${key}`;
}

/**
 * Returns the name for all keys that begin with the same folder. A guard has a name of its own, because requests read
 * single guards only.
 */
function keysNear(key: string): string {
  return `keys near ${key.startsWith('etcdwire/guards/') ? key : key.slice(0, key.indexOf('/') + 1) || key}`;
}

/** Notes that a key was put or deleted. */
export function touchKey(world: World, key: string): void {
  for (const what of [keyNamed(key), keysNear(key)]) world.touch(what, 'write');
  world.touch(STORE, 'part');
}

export function leaseNamed(id: bigint): string {
  return `lease ${id}`;
}

interface KeyRange {
  readonly key?: Uint8Array;
  readonly rangeEnd?: Uint8Array;
  readonly revision?: bigint;
  readonly startRevision?: bigint;
  readonly lease?: bigint;
}

interface Operations {
  readonly compare?: readonly KeyRange[];
  readonly success?: readonly Operation[];
  readonly failure?: readonly Operation[];
}

interface Operation {
  readonly request?: { readonly case: string; readonly value: KeyRange & Operations };
}

/** Returns the name for all keys near a range. */
function keysNearRange({ key, rangeEnd }: KeyRange): string {
  const [first, end] = [textOf(key ?? NO_BYTES), textOf(rangeEnd ?? NO_BYTES)];
  const near = keysNear(first);
  const isNear = end === '' || (end > first && keysNear(end) === near) || near.endsWith(` ${end.slice(0, -1)}/`);
  return isNear ? near : STORE;
}

/**
 * Notes what a request reads, and returns whether it reads at a past revision. The revision in the header of an answer
 * counts only for keys that begin with the same folder: two requests for other keys are played in one order, although
 * their answers then show other revisions.
 */
function touchRead(world: World, path: string, request: unknown): boolean {
  let hasRevision = false;
  const read = (range: KeyRange): void => {
    world.touch(keysNearRange(range), 'read');
    const { revision = 0n, startRevision = 0n, lease = 0n } = range;
    hasRevision ||= revision > 0n || startRevision > 0n;
    if (lease > 0n) world.touch(leaseNamed(lease), 'read');
  };
  const readAll = ({ compare = [], success = [], failure = [] }: Operations): void => {
    for (const each of compare) read(each);
    for (const { request: operation } of [...success, ...failure]) {
      if (operation?.case === 'requestTxn') readAll(operation.value);
      else read(operation?.value ?? {});
    }
  };
  const { requestUnion: union } = request as WatchRequest;
  const { id = 0n } = request as Partial<LeaseKeepAliveRequest>;
  if (path.endsWith('/Txn')) readAll(request as Operations);
  else if (path.includes('.KV/')) read(request as KeyRange);
  else if (path.endsWith('/LeaseKeepAlive')) world.touch(leaseNamed(id), 'read');
  else if (path.includes('.Lease/')) world.touch(id > 0n && !path.endsWith('Grant') ? leaseNamed(id) : LEASES, 'write');
  else if (union?.case === 'createRequest') read(union.value);
  else if (union?.case === 'progressRequest') world.touch(STORE, 'read');
  return hasRevision;
}

/** Compacts the history up to the revision of the store. */
export function compact(world: World, { member: { store } }: MemoryEtcd): void {
  for (const what of ['compacted', STORE]) world.touch(what, 'write');
  store.compact(store.revision);
}

/** Whether the server refuses a message of a stream, and so ends the stream. */
type Refuses = (message: unknown) => boolean;

/** Returns the transport of a party. Its messages are events of the world, which may arrive in any order. */
export function network(world: World, server: MemoryEtcd, party: string, refuses: Refuses): EmbeddedTransportFactory {
  const direct = memory(server);
  const factory = (...args: Parameters<typeof direct>): Transport =>
    new Connection(world, direct(...args), party, refuses, () => compact(world, server));
  return Object.assign(factory, { endpoints: direct.endpoints });
}

class Connection implements Transport {
  readonly #world: World;
  readonly #server: Transport;
  readonly #party: string;
  readonly #refuses: Refuses;
  readonly #compact: () => void;
  /** Functions that end the unary calls whose answers the client has not received yet. */
  readonly #calls = new Set<(error: EtcdError) => void>();
  /** Functions that end the open streams. */
  readonly #streams = new Set<(error: EtcdError) => void>();

  constructor(world: World, server: Transport, party: string, refuses: Refuses, compact: () => void) {
    this.#world = world;
    this.#server = server;
    this.#party = party;
    this.#refuses = refuses;
    this.#compact = compact;
    world.addSource(() => this.#breaks());
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, deadline } = call;
    const label = this.#world.labelOf(`${this.#party}: ${nameOf(method)}`);
    const isPlanned = (what: string): boolean => this.#world.offer(`${label}, ${what}`);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      if (deadline <= monotonicMs()) throw timedOut('call', call.timeoutMs, 'not-sent', method.path);
      call.observer?.sent?.();
      const carried: Carried = { method, request: call.request };
      const undos: (() => void)[] = [];
      const finish = (settle: () => void): void => {
        if (!this.#calls.delete(fail)) return;
        this.#world.touch(wayOf(label), 'write');
        for (const undo of undos) undo();
        settle();
      };
      const toClient = (what: string, settle: () => void, answer?: unknown): void => {
        if (!this.#calls.has(fail)) return this.#world.discard(this.#party);
        const carries = answer === undefined ? undefined : { ...carried, answer };
        const message = { label: `${label}, ${what}`, at: this.#party, carries, action: () => finish(settle) };
        undos.push(this.#world.send(`answer ${label}`, message));
      };
      const loses = (): void => reject(connectionLost());
      const answer = (what: string, settle: () => void, response?: unknown): void => {
        if (isPlanned('the answer is lost')) toClient('the answer is lost', loses);
        else toClient(what, settle, response);
      };
      const request = { ...call, signal: undefined, observer: undefined, deadline: Number.POSITIVE_INFINITY };
      const fail = (error: EtcdError): void => finish(() => reject(error));
      this.#calls.add(fail);
      undos.push(at(deadline, () => fail(timedOut('call', call.timeoutMs, 'unknown', method.path))));
      undos.push(onAbort(signal, () => fail(canceled(signal as AbortSignal, 'unknown', method.path))));
      if (isPlanned('the request is lost')) return toClient('the request is lost', loses);
      if (isPlanned('the member has no leader'))
        return toClient('the member has no leader', () =>
          reject(errorFromStatus('Unavailable', 'etcdserver: no leader')),
        );
      const arrive = (): void => {
        this.#touch(label, method.path, call.request);
        this.#server.unary(request).then(
          (response) => answer('answer', () => resolve(response), response),
          (error: unknown) => answer('refusal', () => reject(error)),
        );
      };
      const isLate = (): boolean => !this.#calls.has(fail) || this.#world.isKilled(this.#party);
      this.#world.send(label, { label, at: SERVER, from: this.#party, isLate, carries: carried, action: arrive });
      // The copy may arrive at any time, also before the original.
      const twice = 'the request is sent twice';
      const copy = `${label}, ${twice}`;
      const arriveAgain = (): void => {
        this.#touch(copy, method.path, call.request);
        void this.#server.unary(request).catch(() => {});
      };
      if (isPlanned(twice))
        this.#world.send(copy, { label: copy, at: SERVER, isLate: () => true, carries: carried, action: arriveAgain });
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const label = this.#world.labelOf(`${this.#party}: stream ${nameOf(call.method)}`);
    const isLate = (): boolean => this.#world.isKilled(this.#party);
    const toServer = (what: string, action: () => void, request?: unknown): void => {
      const message = {
        label: this.#world.labelOf(`${label}, ${what}`),
        at: SERVER,
        from: this.#party,
        isLate,
        carries: request === undefined ? undefined : { method: call.method, request },
        action,
      };
      this.#world.send(`requests of ${label}`, message);
    };
    let stream: OutgoingStream<Request> | undefined;
    /** Functions that lose the responses on their way. */
    const losses: (() => void)[] = [];
    const forget = (): boolean => {
      for (const lose of losses) lose();
      return this.#streams.delete(end);
    };
    const end = (error: EtcdError | undefined): void => {
      if (forget()) handler.end(error);
    };
    this.#streams.add(end);
    const responses = `responses of ${label}`;
    const watched: KeyRange[] = [];
    // Before the end of a watch, the server sends the changes of its keys.
    const touchWatched = (): void => {
      this.#world.touch(responses, 'write');
      for (const range of watched)
        this.#world.touch(
          range.rangeEnd?.length ? keysNearRange(range) : keyNamed(textOf(range.key as Uint8Array)),
          'read',
        );
    };
    const toClient = (what: string, action: () => void, answer?: unknown): void => {
      this.#world.touch(responses, 'write');
      if (!this.#streams.has(end)) return this.#world.discard(this.#party);
      const message = {
        label: this.#world.labelOf(`${label}, ${what}`),
        at: this.#party,
        carries: answer === undefined ? undefined : { method: call.method, request: {}, answer },
        action,
      };
      losses.push(this.#world.send(responses, message));
    };
    // The first message opens the stream.
    const opened = (): OutgoingStream<Request> => {
      stream ??= this.#server.stream(
        { ...call, observer: undefined },
        {
          message: (message) => toClient('message', () => handler.message(message), message),
          end: (error) => toClient('end', () => end(error)),
        },
      );
      return stream;
    };
    return {
      send: (message) => {
        const refuse = (): void =>
          toClient('refusal', () => end(errorFromStatus('PermissionDenied', 'etcdserver: permission denied')));
        const arrive = (): void => {
          this.#world.touch(responses, 'write');
          const { requestUnion: union } = message as Partial<WatchRequest>;
          if (union?.case === 'createRequest') watched.push(union.value);
          if (union?.case === 'cancelRequest') touchWatched();
          this.#touch(label, call.method.path, message);
          if (this.#refuses(message)) refuse();
          else opened().send(message);
        };
        toServer('request', arrive, message);
      },
      end: () =>
        toServer('half-close', () => {
          touchWatched();
          stream?.end();
        }),
      cancel: () => {
        forget();
        toServer('cancel', () => {
          touchWatched();
          stream?.cancel();
        });
      },
      pause: () => {},
      resume: () => {},
    };
  }

  async close(): Promise<void> {
    this.#endAll(clientClosed);
  }

  /** Notes what a request reads. If it names a revision, a fault may compact this revision just before. */
  #touch(label: string, path: string, request: unknown): void {
    if (!touchRead(this.#world, path, request)) return;
    this.#world.touch('compacted', 'read');
    if (this.#world.take(`${label}, its revision is compacted`)) this.#compact();
  }

  #breaks(): readonly (Event & Unplanned)[] {
    // If only one call is open, the loss of its request or answer is the same fault. The server notices no break.
    const isOpen = this.#streams.size > 0 || this.#calls.size > 1;
    if (!isOpen || !this.#world.runs(this.#party)) return [];
    const action = (): void => this.#endAll(connectionLost);
    return [{ label: `${this.#party}: the connection breaks`, at: this.#party, isFault: true, action }];
  }

  #endAll(reason: () => EtcdError): void {
    for (const end of [...this.#calls, ...this.#streams]) end(reason());
  }
}
