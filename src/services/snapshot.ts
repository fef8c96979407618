import { EtcdError } from '../errors/etcd-error.js';
import type { SnapshotResponse } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { createSha256 } from '../host/node.js';
import { concatBytes } from '../runtime/bytes.js';

const DIGEST_BYTES = 32;
/** The database file comes in whole sectors; the digest is what is left over. */
const SECTOR_BYTES = 512;

/** Something that takes bytes and says when it can take more; a `WritableStreamDefaultWriter` is one. */
export interface SnapshotSink {
  /** Takes the next bytes; the ones after them wait for it. */
  write(chunk: Uint8Array): unknown;
}

/**
 * A member's database as it comes, followed by its SHA-256: the very bytes that `etcdutl snapshot restore` takes. To be
 * read once. The last bytes are handed out only after size and digest were found right.
 */
export class Snapshot implements AsyncIterable<Uint8Array> {
  readonly #responses: AsyncGenerator<SnapshotResponse, void>;

  /** @internal */
  constructor(responses: AsyncGenerator<SnapshotResponse, void>) {
    this.#responses = responses;
  }

  /** @throws EtcdError, reason `SnapshotCorrupt`, where bytes are missing or not those that the member sent. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    const hash = createSha256();
    let size = 0;
    let remaining: bigint | undefined;
    let tail: Uint8Array = new Uint8Array(0);
    for await (const { blob, remainingBytes } of this.#responses) {
      // The digest is not counted: it comes after nothing remains.
      const left = remaining === 0n ? 0n : remaining && remaining - BigInt(blob.length);
      if (left !== undefined && left !== remainingBytes) {
        throw corrupt(`a piece is missing before byte ${size}`);
      }
      remaining = remainingBytes;
      size += blob.length;
      const held = concatBytes(tail, blob);
      const ready = held.subarray(0, Math.max(0, held.length - DIGEST_BYTES));
      // A copy: whoever takes the chunk may hand its memory on.
      tail = held.slice(ready.length);
      hash.update(ready);
      if (ready.length > 0) yield ready;
    }
    if (remaining !== undefined && remaining !== 0n) throw corrupt(`it ended ${remaining} bytes early`);
    if (size <= DIGEST_BYTES || size % SECTOR_BYTES !== DIGEST_BYTES)
      throw corrupt(`its size, ${size} bytes, leaves no digest`);
    const digest = hash.digest();
    if (tail.some((byte, index) => byte !== digest[index]))
      throw corrupt('its SHA-256 is another than the member sent');
    yield tail;
  }

  /** Writes all to a sink, which it neither opens nor closes, and gives the number of bytes. */
  async writeTo(sink: SnapshotSink): Promise<number> {
    let size = 0;
    for await (const chunk of this) {
      await sink.write(chunk);
      size += chunk.length;
    }
    return size;
  }
}

function corrupt(why: string): EtcdError {
  return new EtcdError(`the snapshot is not whole: ${why}`, {
    code: 'DataLoss',
    reason: 'SnapshotCorrupt',
    outcome: 'unknown',
    method: methods.maintenance.snapshot.path,
  });
}
