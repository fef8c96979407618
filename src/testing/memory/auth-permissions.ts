import { type Permission, PermissionType } from '../../gen/authpb/auth.js';
import { compare, type KeyId, KeyRange } from './key-range.js';

/** Whether etcd accepts the range in a permission. A range without an end has the range end `\0`. */
export function isValidPermissionRange(key: Uint8Array, rangeEnd: Uint8Array): boolean {
  const { first, end } = new KeyRange(key, rangeEnd);
  return key.length > 0 && isBefore(first, end);
}

/** Whether the permissions together grant access to each key of the range. */
export function grantsAccess(
  permissions: readonly Permission[],
  type: PermissionType,
  key: Uint8Array,
  rangeEnd: Uint8Array,
): boolean {
  const wanted = new KeyRange(key, rangeEnd);
  const granted = permissions
    .filter(({ permType }) => permType === type || permType === PermissionType.READWRITE)
    .map((permission) => new KeyRange(permission.key, permission.rangeEnd))
    .filter((range) => overlaps(range, wanted))
    .sort((a, b) => compare(a.first, b.first));
  const [leftmost] = granted;
  if (leftmost === undefined || leftmost.first > wanted.first) return false;
  let { end } = leftmost;
  for (const next of granted) {
    if (end !== undefined && end < next.first) return false;
    if (isBefore(end, next.end)) end = next.end;
  }
  return !isBefore(end, wanted.end);
}

/**
 * Whether the range of a permission overlaps a wanted range. If the wanted range ends before it starts, only its first
 * key counts: see `Compare` in etcd's `pkg/adt/interval_tree.go`.
 */
function overlaps(granted: KeyRange, wanted: KeyRange): boolean {
  const isRightOfWanted = wanted.first < granted.first && wanted.end !== undefined && wanted.end <= granted.first;
  const isLeftOfWanted = granted.end !== undefined && wanted.first >= granted.end;
  return !isRightOfWanted && !isLeftOfWanted;
}

function isBefore(end: KeyId | undefined, other: KeyId | undefined): boolean {
  return end !== undefined && (other === undefined || end < other);
}
