import { compareBytes, concatBytes, EtcdError, NO_BYTES, textOf, toBytes } from '../../base/index.js';
import { KeyValue, type WireRange, wireOf } from '../../client/index.js';
import { RangeRequest, RangeResponse } from '../../gen/etcdserverpb/rpc.js';
import { createSha256 } from '../../host/node.js';
import { type Codec, decode, encode, type Init, tableCodec } from '../../wire/index.js';

/** A range of keys at one revision of a cluster. */
export interface RangeCopy {
  /** The prefix of the namespace to which the keys are relative. Empty for a client. */
  readonly namespace: Uint8Array;
  readonly range: WireRange;
  /** The ID of the cluster, or 0n if a proxy hides the ID. */
  readonly clusterId: bigint;
  readonly revision: bigint;
  /** When the copy was made, in milliseconds since 1970 on the wall clock. */
  readonly savedAtMs: number;
  /** All keys of the range, in ascending order. */
  readonly kvs: readonly KeyValue[];
}

/**
 * The first bytes of an encoded copy. They end with the version of the encoding. The SHA-256 of the rest follows, and
 * then the rest: an encoded `Message`.
 */
const MAGIC = toBytes('etcdwire range copy 1\n', 'magic');
const SHA256_BYTES = 32;

/** A copy, as the request and the response of a read that would return it, with the namespace and the time. */
interface Message {
  namespace: Uint8Array;
  request: RangeRequest | undefined;
  response: RangeResponse | undefined;
  savedAtMs: bigint;
}

const Message: Codec<Message> = tableCodec('etcdwire.RangeCopy', 'y1namespace m2request m3response i4savedAtMs', () => [
  RangeRequest as Codec<unknown>,
  RangeResponse as Codec<unknown>,
]);

/** Returns the bytes of a copy. */
export function encodeCopy({ namespace, range, clusterId, revision, savedAtMs, kvs }: RangeCopy): Uint8Array {
  const message: Init<Message> = {
    namespace,
    request: { key: range.key, rangeEnd: range.rangeEnd },
    response: { header: { clusterId, revision }, kvs: kvs.map(wireOf), count: BigInt(kvs.length) },
    savedAtMs: BigInt(Math.round(savedAtMs)),
  };
  const body = encode(Message, message);
  return concatBytes(MAGIC, sha256(body), body);
}

/**
 * Returns the copy that `encodeCopy` has encoded.
 *
 * @throws EtcdError with reason `SnapshotCorrupt` if the bytes are not a whole copy, or are a copy of another version.
 */
export function decodeCopy(bytes: Uint8Array): RangeCopy {
  const bodyAt = MAGIC.length + SHA256_BYTES;
  const magic = bytes.subarray(0, MAGIC.length);
  if (compareBytes(magic, MAGIC) !== 0) {
    const isCopy = textOf(magic).startsWith(textOf(MAGIC.subarray(0, -2)));
    throw corrupt(isCopy ? 'the copy was written by another version of etcdwire' : 'the bytes are not a copy of keys');
  }
  const body = bytes.subarray(bodyAt);
  if (compareBytes(bytes.subarray(MAGIC.length, bodyAt), sha256(body)) !== 0)
    throw corrupt('the copy is incomplete or damaged: its SHA-256 does not match');
  const { namespace, request, response, savedAtMs } = decode(Message, body);
  const { clusterId = 0n, revision = 0n } = response?.header ?? {};
  return {
    namespace,
    range: { key: request?.key ?? NO_BYTES, rangeEnd: request?.rangeEnd ?? NO_BYTES },
    clusterId,
    revision,
    savedAtMs: Number(savedAtMs),
    kvs: response?.kvs.map((kv) => new KeyValue(kv)) ?? [],
  };
}

function sha256(bytes: Uint8Array): Uint8Array {
  const hash = createSha256();
  hash.update(bytes);
  return hash.digest();
}

function corrupt(problem: string): EtcdError {
  return new EtcdError(problem, { code: 'DataLoss', reason: 'SnapshotCorrupt', outcome: 'not-sent' });
}
