import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { concatBytes } from '../../../src/base/bytes.js';
import type { SnapshotResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { EtcdError, type Snapshot } from '../../../src/index.js';
import type { Init } from '../../../src/wire/protobuf/writer.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { type ScriptedAnswers, scriptedAnswers, scriptedServer } from '../../support/scripted-server.js';

type Piece = Init<SnapshotResponse>;

const DATABASE = Uint8Array.from({ length: 512 * 8 }, (_, index) => index * 7);
const DIGEST = Uint8Array.from(createHash('sha256').update(DATABASE).digest());
const UNAVAILABLE = 14;

/**
 * The messages of a complete snapshot, as a member sends them. Each message is one piece. `remainingBytes` does not
 * include the digest.
 */
const WHOLE: readonly Piece[] = [
  ...Array.from({ length: 4 }, (_, index) => ({
    blob: DATABASE.subarray(index * 1024, (index + 1) * 1024),
    remainingBytes: BigInt(DATABASE.length - (index + 1) * 1024),
  })),
  { blob: DIGEST, remainingBytes: 0n },
];

// Rule S32 (docs/semantics.md): The client checks a snapshot before it yields the snapshot's last bytes.
describe('a snapshot', () => {
  test('yields all bytes of the database, however the server divides the bytes into messages', async () => {
    expect(await received(await snapshotOf(WHOLE))).toEqual({
      bytes: concatBytes(DATABASE, DIGEST),
      reason: undefined,
    });
    const cut: Piece[] = [
      { blob: DATABASE.subarray(0, 4090), remainingBytes: 6n },
      { blob: DATABASE.subarray(4090), remainingBytes: 0n },
      { blob: DIGEST, remainingBytes: 0n },
    ];
    expect(await received(await snapshotOf(cut))).toEqual({ bytes: concatBytes(DATABASE, DIGEST), reason: undefined });
  });

  test.each<[what: string, pieces: readonly Piece[]]>([
    ['a changed byte', changed(1, { blob: flipped(WHOLE[1]?.blob) })],
    ['a changed first byte', changed(0, { blob: flipped(WHOLE[0]?.blob) })],
    ['a changed digest', changed(4, { blob: flipped(DIGEST) })],
    ['a missing piece', WHOLE.filter((_, index) => index !== 2)],
    ['a repeated piece', [...WHOLE.slice(0, 2), ...WHOLE.slice(1)]],
    ['a shortened piece', changed(2, { blob: WHOLE[2]?.blob?.subarray(0, 512) })],
    ['an early end', WHOLE.slice(0, 2)],
    ['no digest', WHOLE.slice(0, 4)],
    ['a shortened digest', changed(4, { blob: DIGEST.subarray(0, 31) })],
    ['no bytes', []],
  ])('with %s rejects with SnapshotCorrupt and withholds its last bytes', async (_, pieces) => {
    const sent = concatBytes(...pieces.map(({ blob }) => blob ?? new Uint8Array(0)));
    const { bytes, reason } = await received(await snapshotOf(pieces));
    expect(reason).toBe('SnapshotCorrupt');
    expect(bytes.length).toBeLessThanOrEqual(Math.max(0, sent.length - DIGEST.length));
    expect(bytes).toEqual(sent.subarray(0, bytes.length));
  });

  test('rejects with the error of its stream when the stream breaks, and withholds its last bytes', async () => {
    const snapshot = await snapshotFrom(async (stream) => {
      stream.send(WHOLE[0] as Piece);
      stream.fail(UNAVAILABLE, 'etcdserver: server stopped');
    });
    const { bytes, reason } = await received(snapshot);
    expect(reason).toBe('Stopped');
    expect(bytes.length).toBeLessThanOrEqual(1024 - DIGEST.length);
  });

  test('rejects with DeadlineExceeded when the next piece does not arrive within `timeoutMs`', async () => {
    const endpoint = await scriptedServer(
      scriptedAnswers(methods.maintenance.snapshot, async (stream) => stream.send(WHOLE[0] as Piece)),
    );
    const snapshot = openClient({ endpoints: [endpoint] }).maintenance.snapshot(endpoint, { timeoutMs: 200 });
    expect(await errorOf(snapshot.writeTo({ write: () => {} }))).toMatchObject({ reason: 'DeadlineExceeded' });
  });

  test('cancels its stream when the consumer breaks out of the loop', async () => {
    let canceled: Promise<void> | undefined;
    const snapshot = await snapshotFrom(async (stream) => {
      canceled = stream.canceled;
      for (const piece of WHOLE.slice(0, 3)) stream.send(piece);
    });
    for await (const chunk of snapshot) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
    await canceled;
  });
});

function changed(index: number, change: Piece): readonly Piece[] {
  return WHOLE.map((piece, at) => (at === index ? { ...piece, ...change } : piece));
}

function flipped(bytes: Uint8Array | undefined): Uint8Array {
  return Uint8Array.from(bytes ?? [], (byte, index) => (index === 0 ? byte ^ 1 : byte));
}

function snapshotOf(pieces: readonly Piece[]): Promise<Snapshot> {
  return snapshotFrom(async (stream) => {
    for (const piece of pieces) stream.send(piece);
    stream.end();
  });
}

async function snapshotFrom(
  play: (stream: ScriptedAnswers<unknown, SnapshotResponse>) => Promise<void>,
): Promise<Snapshot> {
  const endpoint = await scriptedServer(scriptedAnswers(methods.maintenance.snapshot, play));
  return openClient({ endpoints: [endpoint] }).maintenance.snapshot(endpoint);
}

/** Reads the snapshot. Returns the bytes that it yields, and the reason of the error if it fails. */
async function received(
  snapshot: Snapshot,
): Promise<{ readonly bytes: Uint8Array; readonly reason: string | undefined }> {
  const chunks: Uint8Array[] = [];
  let reason: string | undefined;
  try {
    for await (const chunk of snapshot) chunks.push(chunk);
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    reason = error.reason;
  }
  return { bytes: concatBytes(...chunks), reason };
}
