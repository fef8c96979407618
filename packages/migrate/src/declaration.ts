/**
 * The types of etcd3, as far as the program needs them. They replace the types of the installed package, so that the
 * result depends neither on its version nor on its presence. The property `' kind'` tells the kind of an object, because
 * subclasses, unions and intersections of a class have this property, too.
 */
export const DECLARATION = `
type Steps<Builder, Names extends string> = { [Name in Names]: (...args: any[]) => Builder };
type Results<Values> = { [Name in keyof Values]: (...args: any[]) => Promise<Values[Name]> };
type Kind<Name> = { readonly ' kind': Name };
type Emitter = Steps<any, 'on' | 'once' | 'off' | 'addListener' | 'removeListener' | 'removeAllListeners'>;

interface Bytes {
  readonly length: number;
  toString(encoding?: string): string;
}
export interface IKeyValue {
  key: Bytes;
  value: Bytes;
  version: string;
  create_revision: string;
  mod_revision: string;
  lease: string;
}
export interface IRangeResponse {
  kvs: IKeyValue[];
  count: string;
  [field: string]: any;
}
export interface IPutResponse {
  prev_kv: IKeyValue;
  [field: string]: any;
}
export interface IDeleteRangeResponse {
  deleted: string;
  prev_kvs: IKeyValue[];
  [field: string]: any;
}
export interface ITxnResponse {
  succeeded: boolean;
  [field: string]: any;
}
export interface IOptions {
  readonly ' kind'?: 'options';
  hosts: string | string[];
  [option: string]: any;
}

type Keys = 'key' | 'prefix' | 'inRange' | 'all' | 'range' | 'options';
type RevisionOption = 'minModRevision' | 'maxModRevision' | 'minCreateRevision' | 'maxCreateRevision';
type RangeOption = RevisionOption | 'revision' | 'serializable' | 'options';
interface Values {
  string: string | null;
  number: number | null;
  buffer: Bytes | null;
  exists: boolean;
  json: any;
  exec: IRangeResponse;
}
interface AllValues {
  strings: Record<string, string>;
  numbers: Record<string, number>;
  buffers: Record<string, Bytes>;
  json: Record<string, any>;
  keys: string[];
  keyBuffers: Bytes[];
  count: number;
  exec: IRangeResponse;
}
export interface SingleRangeBuilder
  extends Promise<string | null>, Steps<SingleRangeBuilder, RangeOption>, Results<Values> {}
export interface MultiRangeBuilder
  extends Promise<Record<string, string>>,
    Steps<MultiRangeBuilder, RangeOption | Keys | 'limit' | 'sort'>,
    Results<AllValues> {}
export interface PutBuilder
  extends Promise<IPutResponse>,
    Steps<PutBuilder, 'value' | 'lease' | 'ignoreLease' | 'options'>,
    Results<{ exec: IPutResponse; touch: IPutResponse; getPrevious: IKeyValue }> {}
export interface DeleteBuilder
  extends Promise<IDeleteRangeResponse>,
    Steps<DeleteBuilder, Keys>,
    Results<{ exec: IDeleteRangeResponse; getPrevious: IKeyValue[] }> {}
export interface ComparatorBuilder
  extends Steps<ComparatorBuilder, 'and' | 'then' | 'else' | 'options'>, Results<{ commit: ITxnResponse }> {}
export interface WatchBuilder
  extends Steps<WatchBuilder, Keys | 'only' | 'ignore' | 'withPreviousKV' | 'startRevision'>,
    Results<{ create: Watcher }> {
  watcher(): Watcher;
}
export interface SoftwareTransaction extends Kind<'transaction'> {
  get(key: any): SingleRangeBuilder;
  getAll(): MultiRangeBuilder;
  put(key: any): PutBuilder;
  delete(): DeleteBuilder;
  transact<T>(action: (tx: SoftwareTransaction) => T | Promise<T>): Promise<T>;
}

export interface Watcher extends Kind<'watcher'>, Emitter, Results<{ cancel: void }> {}
export interface Lease
  extends Kind<'lease'>, Emitter, Results<{ grant: string; revoke: void; keepaliveOnce: any }> {
  readonly state: number;
  put(key: any): PutBuilder;
  release(): void;
  revoked(): boolean;
}
export interface Lock extends Kind<'lock'>, Steps<Lock, 'ttl' | 'options'> {
  acquire(): Promise<Lock>;
  release(): Promise<void>;
  leaseId(): Promise<string | null>;
  do<T>(action: () => T | Promise<T>): Promise<T>;
}
export interface ElectionObserver extends Kind<'observer'>, Emitter, Results<{ cancel: void }> {
  leader(): string | undefined;
}
export interface Campaign
  extends Kind<'campaign'>, Emitter, Results<{ proclaim: void; resign: void; getCampaignKey: string }> {
  wait(): Promise<Campaign>;
}
export interface Election extends Kind<'election'> {
  campaign(value: string): Campaign;
  leader(): Promise<string | undefined>;
  observe(): Promise<ElectionObserver>;
}
export declare class Namespace {
  readonly ' kind': 'client';
  get(key: any): SingleRangeBuilder;
  getAll(): MultiRangeBuilder;
  put(key: any): PutBuilder;
  delete(): DeleteBuilder;
  if(...condition: any[]): ComparatorBuilder;
  watch(): WatchBuilder;
  lease(ttl: number, options?: any): Lease;
  lock(key: any): Lock;
  stm(options?: any): SoftwareTransaction;
  election(name: string, ttl?: number): Election;
  namespace(prefix: any): Namespace;
}
export declare class Etcd3 extends Namespace {
  constructor(options?: IOptions);
  close(): void;
}

declare global {
  var require: NodeJS.Require;
  namespace NodeJS {
    interface Require {
      (module: 'etcd3'): typeof import('etcd3');
      (module: string): any;
    }
  }
}
`;
