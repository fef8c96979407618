import { messageFields } from '../../src/gen/descriptors.js';
import type { FieldDescriptor } from '../../src/wire/protobuf/schema.js';
import type { Bytes, Fields, Integer } from './step.js';

/** The values that the symbols of a sequence stand for, at one target. */
export interface Symbols {
  /** The revision at the start of the sequence. */
  base: bigint;
  /** The last revision that the target returned. */
  current: bigint;
  /** The revision of the last compaction. */
  compacted: bigint;
  /** The lease IDs that the server has chosen. */
  readonly leases: bigint[];
  /** The IDs of the members: first the member that answers, then the learners. */
  readonly members: bigint[];
  /** The keys of the locks that the sequence has acquired. */
  readonly lockKeys: Uint8Array[];
  /** The leader keys that `campaign` has returned. */
  readonly leaders: unknown[];
}

/** The ID of a lease or a member that the sequence has not created. */
const UNKNOWN_ID = 404_404n;

/** Converts a request from JSON to the form of the codecs. */
export function resolve(typeName: string, fields: Fields, symbols: Symbols): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const [property, value] of Object.entries(fields)) {
    if (value === undefined || value === null) continue;
    message[property] = resolveField(typeName, property, value, symbols);
  }
  return message;
}

function resolveField(typeName: string, property: string, value: unknown, symbols: Symbols): unknown {
  const declared = messageFields[typeName] ?? [];
  const field = declared.find((candidate) => candidate.property === property && candidate.oneof === undefined);
  if (field !== undefined) {
    if (field.repeated !== true) return resolveValue(field, value, symbols);
    return (value as unknown[]).map((item) => resolveValue(field, item, symbols));
  }
  const { case: name, value: inner } = value as { case: string; value: unknown };
  const chosen = declared.find((candidate) => candidate.oneof === property && candidate.property === name);
  if (chosen === undefined) throw new Error(`${typeName} has no field ${property} with the case ${name}`);
  return { case: name, value: resolveValue(chosen, inner, symbols) };
}

function resolveValue({ type }: FieldDescriptor, value: unknown, symbols: Symbols): unknown {
  if ('message' in type) {
    const { campaign } = value as { campaign?: number };
    if (campaign !== undefined)
      return symbols.leaders[campaign] ?? resolve(type.message, { key: 'none', name: 'none' }, symbols);
    return resolve(type.message, value as Fields, symbols);
  }
  if ('enum' in type) return value;
  if (type.scalar === 'bytes') return resolveBytes(value as Bytes, symbols);
  if (type.scalar === 'int64') return resolveInteger(value as Integer, symbols);
  if (type.scalar === 'uint64') return BigInt.asUintN(64, resolveInteger(value as Integer, symbols));
  return value;
}

export function resolveInteger(integer: Integer, symbols: Symbols): bigint {
  if (typeof integer !== 'object') return BigInt(integer);
  if ('base' in integer) return symbols.base + BigInt(integer.base);
  if ('current' in integer) return symbols.current + BigInt(integer.current);
  if ('compacted' in integer) return symbols.compacted + BigInt(integer.compacted);
  if ('lease' in integer) return symbols.leases[integer.lease] ?? UNKNOWN_ID;
  return symbols.members.at(integer.member) ?? UNKNOWN_ID;
}

function resolveBytes(bytes: Bytes, symbols: Symbols): Uint8Array {
  if (typeof bytes === 'string') return latin1(bytes);
  if ('repeat' in bytes) return latin1(bytes.repeat.repeat(bytes.times));
  if ('lockKey' in bytes) return symbols.lockKeys[bytes.lockKey] ?? latin1('none');
  const leader = symbols.leaders[bytes.leaderKey] as { key: Uint8Array } | undefined;
  return leader?.key ?? latin1('none');
}

export function latin1(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'latin1'));
}

/** Remembers the revision of a response header. */
export function learnRevision(symbols: Symbols, { header }: Record<string, unknown>): void {
  const { revision } = (header ?? { revision: 0n }) as { revision: bigint };
  if (revision > symbols.current) symbols.current = revision;
}
