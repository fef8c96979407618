import {
  type BytesLike,
  checkChoice,
  checkedLaterAll,
  checkFields,
  checkInt64,
  type Int64Like,
  invalidInput,
  ownBytes,
  printable,
  show,
  toBytes,
} from '../../base/index.js';
import * as wire from '../../gen/etcdserverpb/rpc.js';
import type { Init } from '../../wire/index.js';
import { type Keys, ownKeys, resolveKeys } from './keys.js';

/** How a condition compares a property of a key with the operand. */
export type Operator = '==' | '!=' | '<' | '>';

/**
 * A condition of a transaction. It compares a property (`target`) of one key, or of every key of a range, with an
 * operand. For a key that does not exist, the version, the revisions and the lease are 0n, and a comparison of its
 * value is always false. A range that contains no key counts as one key that does not exist.
 */
export type Compare =
  | {
      readonly target: 'version' | 'createRevision' | 'modRevision' | 'lease';
      readonly keys: Keys;
      readonly operator: Operator;
      readonly operand: Int64Like;
    }
  | { readonly target: 'value'; readonly keys: Keys; readonly operator: Operator; readonly operand: BytesLike };

/**
 * Makes the conditions of a transaction. Copies the caller's bytes.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid.
 *
 * @example
 * await etcd.txn({
 *   if: [compare.missing('config/size'), compare.value('config/mode', '==', 'setup')],
 *   then: [op.put('config/size', '10')],
 * });
 */
export const compare = {
  /** Compares the key's version: the number of puts since the key was created, or 0n if the key does not exist. */
  version: (keys: Keys, operator: Operator, operand: Int64Like): Compare =>
    ownCondition({ target: 'version', keys, operator, operand }),
  /** Compares the revision at which the key was created, or 0n if the key does not exist. */
  createRevision: (keys: Keys, operator: Operator, operand: Int64Like): Compare =>
    ownCondition({ target: 'createRevision', keys, operator, operand }),
  /** Compares the revision of the key's last put, or 0n if the key does not exist. */
  modRevision: (keys: Keys, operator: Operator, operand: Int64Like): Compare =>
    ownCondition({ target: 'modRevision', keys, operator, operand }),
  /** Compares the ID of the key's lease, or 0n if the key has no lease. */
  lease: (keys: Keys, operator: Operator, operand: Int64Like): Compare =>
    ownCondition({ target: 'lease', keys, operator, operand }),
  /** Requires that the key exists or, for a range, that the range contains at least one key. */
  exists: (keys: Keys): Compare => compare.createRevision(keys, '>', 0n),
  /** Requires that the key does not exist or, for a range, that the range contains no key. */
  missing: (keys: Keys): Compare => compare.createRevision(keys, '==', 0n),
  /** Compares the value of the key with `operand`, in byte order. */
  value: (keys: Keys, operator: Operator, operand: BytesLike): Compare =>
    ownCondition({ target: 'value', keys, operator, operand: ownBytes(operand, 'operand') }),
};

const COMPARE = checkedLaterAll('target', 'keys', 'operator', 'operand');

const COMPARE_RESULTS = {
  '==': wire.CompareResult.EQUAL,
  '!=': wire.CompareResult.NOT_EQUAL,
  '<': wire.CompareResult.LESS,
  '>': wire.CompareResult.GREATER,
} as const;

const COMPARE_TARGETS = {
  version: wire.CompareTarget.VERSION,
  createRevision: wire.CompareTarget.CREATE,
  modRevision: wire.CompareTarget.MOD,
  value: wire.CompareTarget.VALUE,
  lease: wire.CompareTarget.LEASE,
} as const;

/** Checks the operator and the operand. Returns the condition with a copy of the keys. */
function ownCondition(condition: Compare): Compare {
  checkChoice(COMPARE_RESULTS, condition.operator, 'operator');
  const operand = condition.target === 'value' ? condition.operand : checkInt64(condition.operand, 'operand');
  return printable({ ...condition, operand, keys: ownKeys(condition.keys) } as Compare);
}

/** Checks a condition, and converts it to the message `Compare` of a request. */
export function conditionRequest(condition: Compare, argument: string): Init<wire.Compare> {
  if (typeof condition !== 'object' || condition === null)
    throw invalidInput(argument, show(condition), 'a condition made by compare, such as compare.exists(key)');
  checkFields(condition, COMPARE, argument);
  const { target, operator, operand, keys } = condition;
  return {
    ...resolveKeys(keys, `${argument}.keys`),
    result: checkChoice(COMPARE_RESULTS, operator, `${argument}.operator`),
    target: checkChoice(COMPARE_TARGETS, target, `${argument}.target`),
    targetUnion:
      target === 'value'
        ? { case: target, value: toBytes(operand, `${argument}.operand`) }
        : { case: target, value: checkInt64(operand, `${argument}.operand`) },
  };
}
