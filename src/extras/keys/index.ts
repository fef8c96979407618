export {
  type CreateOptions,
  createKey,
  deleteKeyIf,
  type Expected,
  type Modified,
  type ModifyOptions,
  modifyKey,
  type NotWritten,
  swapKey,
  txnConflict,
  type UpdateOptions,
  updateKey,
  type Written,
} from './compare-and-set.js';
export { type GetManyOptions, getMany, type Many } from './get-many.js';
export {
  checkCodec,
  decodeWith,
  json,
  type TypedCachedRange,
  type TypedChange,
  TypedKeys,
  type TypedKeyValue,
  type TypedWatch,
  typed,
  type ValueCodec,
} from './typed.js';
