// Incremental SHA-256 (FIPS 180-4) for runtimes without node:crypto. Web Crypto requires all the data to be in memory
// at once, and a database snapshot may be too large for that.

/** A hash of data that arrives in pieces. */
export interface IncrementalHash {
  /** Adds bytes to the data. */
  update(bytes: Uint8Array): unknown;
  /** Returns the hash. The caller must not call `update` or `digest` afterwards. */
  digest(): Uint8Array;
}

/**
 * The constants of FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first
 * 64 primes.
 */
const K = Int32Array.from(primes(64), (prime) => fraction(Math.cbrt(prime)));
/**
 * The initial hash value of FIPS 180-4, section 5.3.3: the first 32 bits of the fractional parts of the square roots of
 * the first 8 primes.
 */
const INITIAL = Int32Array.from(primes(8), (prime) => fraction(Math.sqrt(prime)));

const BLOCK_BYTES = 64;

/** Creates a SHA-256 hash that is computed in JavaScript, for runtimes without node:crypto. */
export function createSha256(): IncrementalHash {
  return new Sha256();
}

export class Sha256 implements IncrementalHash {
  readonly #state = Int32Array.from(INITIAL);
  readonly #block = new Uint8Array(BLOCK_BYTES);
  readonly #view = new DataView(this.#block.buffer);
  readonly #words = new Int32Array(64);
  /** The number of bytes hashed so far. It must stay below 2^53. */
  #length = 0;

  update(bytes: Uint8Array): this {
    let at = 0;
    while (at < bytes.length) {
      const filled = this.#length % BLOCK_BYTES;
      const part = bytes.subarray(at, at + BLOCK_BYTES - filled);
      this.#block.set(part, filled);
      this.#length += part.length;
      at += part.length;
      if (filled + part.length === BLOCK_BYTES) this.#compress();
    }
    return this;
  }

  digest(): Uint8Array {
    const bits = BigInt(this.#length) * 8n;
    const padding = new Uint8Array(((BLOCK_BYTES * 2 - 9 - (this.#length % BLOCK_BYTES)) % BLOCK_BYTES) + 9);
    padding[0] = 0x80;
    new DataView(padding.buffer).setBigUint64(padding.length - 8, bits);
    this.update(padding);
    const digest = new DataView(new ArrayBuffer(32));
    for (const [index, word] of this.#state.entries()) digest.setInt32(index * 4, word);
    return new Uint8Array(digest.buffer);
  }

  /** Updates the state with the next 64-byte block of the data: FIPS 180-4, section 6.2.2. */
  #compress(): void {
    const w = this.#words;
    for (let t = 0; t < 16; t += 1) w[t] = this.#view.getInt32(t * 4);
    for (let t = 16; t < 64; t += 1) {
      const w15 = w[t - 15] as number;
      const w2 = w[t - 2] as number;
      const sigma0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3);
      const sigma1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10);
      w[t] = ((w[t - 16] as number) + sigma0 + (w[t - 7] as number) + sigma1) | 0;
    }
    const state = this.#state;
    let a = state[0] as number;
    let b = state[1] as number;
    let c = state[2] as number;
    let d = state[3] as number;
    let e = state[4] as number;
    let f = state[5] as number;
    let g = state[6] as number;
    let h = state[7] as number;
    for (let t = 0; t < 64; t += 1) {
      const sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const choice = (e & f) ^ (~e & g);
      const t1 = (h + sum1 + choice + (K[t] as number) + (w[t] as number)) | 0;
      const sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const majority = (a & b) ^ (a & c) ^ (b & c);
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + sum0 + majority) | 0;
    }
    add(state, [a, b, c, d, e, f, g, h]);
  }
}

function add(state: Int32Array, words: readonly number[]): void {
  for (let index = 0; index < 8; index += 1) state[index] = (state[index] as number) + (words[index] as number);
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function fraction(root: number): number {
  return (root - Math.floor(root)) * 2 ** 32;
}

function primes(count: number): number[] {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate += 1) {
    if (found.every((prime) => candidate % prime !== 0)) found.push(candidate);
  }
  return found;
}
