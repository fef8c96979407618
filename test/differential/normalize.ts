import { messageFields } from '../../src/gen/descriptors.js';
import type { FieldDescriptor } from '../../src/wire/protobuf/schema.js';
import type { Symbols } from './resolve.js';

// Replaces the values that may differ between two correct servers. An ID, a token, a hash or a raft term becomes a name
// that numbers the values of its kind in the order of their first occurrence. A revision becomes its offset from the
// start of the sequence. A size or a time becomes a text that says whether it is plausible.

/** A response without IDs, sizes and times: the form in which responses are compared. JSON can represent it. */
export type Normal = null | boolean | number | string | readonly Normal[] | { readonly [property: string]: Normal };

/** The largest ID in a request of a sequence. The server has chosen every larger ID. */
const LARGEST_GIVEN_ID = 2n ** 40n;
/** The number of bytes up to which `Normalizer.bytes` shows all bytes. */
const SHOWN_BYTES = 80;
/** How long a sequence may take, in seconds: the maximum difference between the granted and the remaining TTL. */
const LONGEST_SEQUENCE_S = 50n;

const REVISIONS = new Set(['revision', 'createRevision', 'modRevision', 'compactRevision', 'hashRevision', 'rev']);
const SIZES = new Set(['dbSize', 'dbSizeInUse', 'raftIndex', 'raftAppliedIndex', 'remainingBytes']);
const MEMBER_IDS = new Set(['memberId', 'leader', 'Member.id']);
const LEASE_IDS = new Set(['lease', 'id']);
/** The lists whose order etcd does not define. */
const UNORDERED = new Set(['LeaseTimeToLiveResponse.keys', 'AlarmResponse.alarms', 'StatusResponse.errors']);
/**
 * The same lists for a cluster. Its followers do not know when a lease expires, and a new leader renews all leases in
 * random order: `unsafeLeases` and `Promote` in etcd's `lease/lessor.go`.
 */
export const UNORDERED_IN_CLUSTER = new Set([...UNORDERED, 'LeaseLeasesResponse.leases']);
const MEMBER_LISTS = new Set(['members']);

/** Normalizes the responses of one target in one sequence. */
export class Normalizer {
  readonly #symbols: Symbols;
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  /** The revision of the authentication store at the start of the sequence. */
  authBase = 0n;
  /** The names and URLs of the members, each with the text that replaces it in normal form. */
  readonly ownTexts = new Map<string, string>();

  /** The lists whose order etcd does not define. */
  readonly #unordered: ReadonlySet<string>;

  constructor(symbols: Symbols, unordered: ReadonlySet<string> = UNORDERED) {
    this.#symbols = symbols;
    this.#unordered = unordered;
  }

  message(typeName: string, message: Readonly<Record<string, unknown>>): Normal {
    const normal: Record<string, Normal> = {};
    for (const field of messageFields[typeName] ?? []) {
      const property = field.oneof ?? field.property;
      const value = message[property];
      if (field.oneof !== undefined) {
        const chosen = value as { case: string; value: unknown } | undefined;
        if (chosen?.case === field.property)
          normal[field.property] = this.#value(typeName, field, chosen.value, message);
      } else if (value !== undefined) {
        normal[property] =
          field.repeated === true
            ? this.#list(typeName, field, value as unknown[], message)
            : this.#value(typeName, field, value, message);
      }
    }
    return normal;
  }

  /** Returns the name of an ID, by the order in which the IDs of this kind have occurred. */
  name(kind: string, id: unknown): string {
    const key = `${kind} ${String(id)}`;
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    const name = `${kind} #${count}`;
    this.#names.set(key, name);
    return name;
  }

  revision(revision: bigint): string {
    if (revision <= 0n) return String(revision);
    const offset = revision - this.#symbols.base;
    return `base${offset < 0n ? '' : '+'}${offset}`;
  }

  bytes(bytes: Uint8Array): string {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
    if (text.length > SHOWN_BYTES) return `${text.slice(0, 20)}... (${text.length} bytes, checksum ${checksum(bytes)})`;
    // The keys of locks and elections end with the ID of the lease in hexadecimal.
    return text.replace(/[0-9a-f]{11,16}$/, (digits) => this.name('lease', BigInt(`0x${digits}`)));
  }

  text(text: string): string {
    const named = text.replace(
      /memberID:(\d+)/,
      (_, id: string) => `memberID:${id === '0' ? id : this.name('member', id)}`,
    );
    return this.ownTexts.get(named) ?? named;
  }

  readonly #byMember = (a: unknown, b: unknown): number => {
    const key = (member: unknown): string => {
      const { name, peerUrls } = member as { name: string; peerUrls: string[] };
      // Members with a name come first: only the members of the cluster at the start have one.
      return `${name === '' ? 'z' : 'a'}${peerUrls.map((url) => this.text(url)).join()}`;
    };
    return key(a) < key(b) ? -1 : 1;
  };

  #list(
    typeName: string,
    field: FieldDescriptor,
    items: readonly unknown[],
    parent: Readonly<Record<string, unknown>>,
  ): Normal {
    const sorted = MEMBER_LISTS.has(field.property) ? [...items].sort(this.#byMember) : items;
    const normal = sorted.map((item) => this.#value(typeName, field, item, parent));
    const short = `${shortName(typeName)}.${field.property}`;
    return this.#unordered.has(short)
      ? [...normal].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
      : normal;
  }

  #value(
    typeName: string,
    { type, property }: FieldDescriptor,
    value: unknown,
    parent: Readonly<Record<string, unknown>>,
  ): Normal {
    if ('message' in type) return this.message(type.message, value as Record<string, unknown>);
    if ('enum' in type) return value as number;
    switch (type.scalar) {
      case 'bytes':
        return this.bytes(value as Uint8Array);
      case 'string':
        return this.#string(typeName, property, value as string);
      case 'bool':
        return value as boolean;
      case 'uint32':
        return property === 'hash' ? this.name('hash', value) : (value as number);
      default:
        return this.#integer(shortName(typeName), property, value as bigint, parent);
    }
  }

  #string(typeName: string, property: string, text: string): string {
    if (property === 'token') return text === '' ? '' : this.name('token', text);
    // A server of the same minor version may be another patch release.
    if (property === 'version' && !typeName.includes('Downgrade')) return text.replace(/^(\d+\.\d+)\.\d+.*$/, '$1.x');
    return this.text(text);
  }

  #integer(typeName: string, property: string, value: bigint, parent: Readonly<Record<string, unknown>>): string {
    if (REVISIONS.has(property)) return this.revision(value);
    if (property === 'authRevision') return `auth+${value - this.authBase}`;
    if (property === 'clusterId') return this.name('cluster', value);
    if (property === 'raftTerm') return this.name('term', value);
    if (MEMBER_IDS.has(property) || MEMBER_IDS.has(`${typeName}.${property}`))
      return value === 0n ? '0' : this.name('member', value);
    if (SIZES.has(property)) return value > 0n ? 'above 0' : String(value);
    if (typeName === 'LeaseTimeToLiveResponse' && property === 'ttl') {
      const granted = parent.grantedTtl as bigint;
      return value >= 0n && value <= granted && value >= granted - LONGEST_SEQUENCE_S ? 'granted' : String(value);
    }
    if (LEASE_IDS.has(property) && value > LARGEST_GIVEN_ID) return this.name('lease', value);
    return String(value);
  }
}

function shortName(typeName: string): string {
  return typeName.slice(typeName.indexOf('.') + 1);
}

/** Returns the FNV-1a hash of the bytes. */
function checksum(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** Where two normal forms differ first. */
export interface Difference {
  /** The path of the field, such as `response.header.revision`. */
  readonly path: string;
  readonly left: Normal | undefined;
  readonly right: Normal | undefined;
}

/** Returns the first field in which two normal forms differ, or undefined if they are equal. */
export function firstDifference(
  left: Normal | undefined,
  right: Normal | undefined,
  path = '',
): Difference | undefined {
  if (left === right) return undefined;
  if (!isTree(left) || !isTree(right) || Array.isArray(left) !== Array.isArray(right)) return { path, left, right };
  const keys = [...new Set([...Object.keys(left), ...Object.keys(right)])];
  for (const key of keys) {
    const inner = path === '' ? key : `${path}.${key}`;
    const found = firstDifference((left as Record<string, Normal>)[key], (right as Record<string, Normal>)[key], inner);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isTree(value: Normal | undefined): value is readonly Normal[] | { readonly [property: string]: Normal } {
  return typeof value === 'object' && value !== null;
}
