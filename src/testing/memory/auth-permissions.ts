import { type Permission, PermissionType } from '../../gen/authpb/auth.js';
import { type KeyId, keyId } from './key-range.js';

/** A range of keys of a permission or of a request. `end` is exclusive; undefined means that the range has no end. */
interface Interval {
  readonly first: KeyId;
  readonly end: KeyId | undefined;
}

/** Whether etcd accepts the range in a permission. A range without an end has the range end `\0`. */
export function isValidPermissionRange(key: Uint8Array, rangeEnd: Uint8Array): boolean {
  if (key.length === 0) return false;
  return rangeEnd.length === 0 || isOpenEnded(rangeEnd) || keyId(key) < keyId(rangeEnd);
}

/** Whether the permissions together grant access to each key of the range. */
export function grantsAccess(
  permissions: readonly Permission[],
  type: PermissionType,
  key: Uint8Array,
  rangeEnd: Uint8Array,
): boolean {
  const wanted = intervalOf(key, rangeEnd);
  const granted = permissions
    .filter(({ permType }) => permType === type || permType === PermissionType.READWRITE)
    .map((permission) => intervalOf(permission.key, permission.rangeEnd))
    .filter((interval) => overlaps(interval, wanted))
    .sort((a, b) => (a.first < b.first ? -1 : 1));
  const [leftmost] = granted;
  if (leftmost === undefined || leftmost.first > wanted.first) return false;
  let { end } = leftmost;
  for (const next of granted) {
    if (end !== undefined && end < next.first) return false;
    if (isBefore(end, next.end)) end = next.end;
  }
  return !isBefore(end, wanted.end);
}

function intervalOf(key: Uint8Array, rangeEnd: Uint8Array): Interval {
  const first = keyId(key);
  if (rangeEnd.length === 0) return { first, end: `${first}\0` };
  return { first, end: isOpenEnded(rangeEnd) ? undefined : keyId(rangeEnd) };
}

function isOpenEnded(rangeEnd: Uint8Array): boolean {
  return rangeEnd.length === 1 && rangeEnd[0] === 0;
}

/**
 * Whether the range of a permission overlaps a wanted range. If the wanted range ends before it starts, only its first
 * key counts: see `Compare` in etcd's `pkg/adt/interval_tree.go`.
 */
function overlaps(granted: Interval, wanted: Interval): boolean {
  const isRightOfWanted = wanted.first < granted.first && wanted.end !== undefined && wanted.end <= granted.first;
  const isLeftOfWanted = granted.end !== undefined && wanted.first >= granted.end;
  return !isRightOfWanted && !isLeftOfWanted;
}

function isBefore(end: KeyId | undefined, other: KeyId | undefined): boolean {
  return end !== undefined && (other === undefined || end < other);
}
