import { invalidInput } from '../errors/etcd-error.js';
import { CompareResult, CompareTarget, type Compare as WireCompare } from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import { checkChoice, checkFields, checkInt64, show } from '../runtime/arguments.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';
import { type Keys, resolveKeys } from './key-range.js';

/** How a key is to compare with the operand. */
export type Operator = '==' | '!=' | '<' | '>';

/**
 * A condition on a key, or on every key of a range. A missing key has version, revisions and lease 0n; comparing its
 * value is false. A range without keys counts as one missing key.
 */
export type Compare =
  | {
      readonly target: 'version' | 'createRevision' | 'modRevision' | 'lease';
      readonly keys: Keys;
      readonly operator: Operator;
      readonly operand: bigint;
    }
  | { readonly target: 'value'; readonly keys: Keys; readonly operator: Operator; readonly operand: BytesLike };

const number =
  (target: 'version' | 'createRevision' | 'modRevision' | 'lease') =>
  (keys: Keys, operator: Operator, operand: bigint): Compare => ({ target, keys, operator, operand });

/** Conditions, by what of the key is compared. */
export const compare = {
  /** Number of puts; 0n when the key does not exist. */
  version: number('version'),
  /** 0n when the key does not exist. */
  createRevision: number('createRevision'),
  /** Revision of the last put; 0n when the key does not exist. */
  modRevision: number('modRevision'),
  /** Number of the lease; 0n when there is none. */
  lease: number('lease'),
  /** There is such a key; of a range, every key is there, and one at least. */
  exists: (keys: Keys): Compare => ({ target: 'createRevision', keys, operator: '>', operand: 0n }),
  /** There is no such key, or none in the range. */
  missing: (keys: Keys): Compare => ({ target: 'createRevision', keys, operator: '==', operand: 0n }),
  /** By bytes. */
  value: (keys: Keys, operator: Operator, operand: BytesLike): Compare => ({
    target: 'value',
    keys,
    operator,
    operand,
  }),
};

const COMPARE = { target: true, keys: true, operator: true, operand: true } as const;

const RESULTS = {
  '==': CompareResult.EQUAL,
  '!=': CompareResult.NOT_EQUAL,
  '<': CompareResult.LESS,
  '>': CompareResult.GREATER,
} as const;

const TARGETS = {
  version: CompareTarget.VERSION,
  createRevision: CompareTarget.CREATE,
  modRevision: CompareTarget.MOD,
  value: CompareTarget.VALUE,
  lease: CompareTarget.LEASE,
} as const;

/** @throws EtcdError, reason `InvalidInput`. */
export function compareRequest(condition: Compare, argument: string): Init<WireCompare> {
  if (typeof condition !== 'object' || condition === null)
    throw invalidInput(argument, show(condition), 'one of compare.…, such as compare.exists');
  checkFields(condition, COMPARE, argument);
  const { target, operator, operand, keys } = condition;
  return {
    ...resolveKeys(keys, `${argument}.keys`),
    result: checkChoice(RESULTS, operator, `${argument}.operator`),
    target: checkChoice(TARGETS, target, `${argument}.target`),
    targetUnion:
      target === 'value'
        ? { case: target, value: toBytes(operand, `${argument}.operand`) }
        : { case: target, value: checkInt64(operand, `${argument}.operand`) },
  };
}
