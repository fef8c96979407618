import { Sha256 } from '../../host/index.js';
import { StatusError } from './service.js';

// A `MemoryEtcd` keeps a salted SHA-256 hash of each password. etcd keeps a bcrypt hash. The difference is not visible
// to clients, with one exception: if a client sends a hash in `AuthUserChangePasswordRequest.hashedPassword`, the hash
// must have the format of this file. No password matches a bcrypt hash.

const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** bcrypt uses the first 72 bytes of a password. */
const KEY_BYTES = 72;
const utf8 = new TextEncoder();

/** The salt, followed by the SHA-256 hash of the salt and the password. */
export type PasswordHash = Uint8Array;

/**
 * Hashes a password with a random salt. `random` returns a number from 0 to below 1.
 *
 * @throws StatusError if the password is longer than 72 bytes, as Go's package `bcrypt` does.
 */
export function hashPassword(password: string, random: () => number): PasswordHash {
  if (utf8.encode(password).length > KEY_BYTES)
    throw new StatusError('Unknown', `bcrypt: password length exceeds ${KEY_BYTES} bytes`);
  return hashWith(
    Uint8Array.from({ length: SALT_BYTES }, () => Math.floor(random() * 256)),
    password,
  );
}

/** Whether the hash was made from the password. A hash of another format matches no password. */
export function matchesPassword(hash: PasswordHash, password: string): boolean {
  if (hash.length !== SALT_BYTES + HASH_BYTES) return false;
  const expected = hashWith(hash.subarray(0, SALT_BYTES), password);
  return expected.every((byte, index) => byte === hash[index]);
}

function hashWith(salt: Uint8Array, password: string): PasswordHash {
  const hash = new Uint8Array(SALT_BYTES + HASH_BYTES);
  hash.set(salt);
  hash.set(new Sha256().update(salt).update(bcryptKey(password)).digest(), SALT_BYTES);
  return hash;
}

/**
 * Returns the key that bcrypt derives from a password: the password and a zero byte, repeated up to 72 bytes. etcd,
 * too, accepts every password with the same key.
 */
function bcryptKey(password: string): Uint8Array {
  const bytes = utf8.encode(password);
  const period = bytes.length + 1;
  return Uint8Array.from({ length: KEY_BYTES }, (_, index) => bytes[index % period] ?? 0);
}
