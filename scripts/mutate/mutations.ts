/** A mistake that others have made, and the tests of which at least one must see it. */
export interface Mutation {
  readonly mistake: string;
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Test files, or the beginnings of their paths. */
  readonly tests: readonly string[];
}

export const MUTATIONS: readonly Mutation[] = [
  {
    mistake: 'a watch resumes at the revision of a response header',
    file: 'src/watch/watcher.ts',
    find: 'this.#cursor.delivered(batch.revision);',
    replace: 'this.#cursor.delivered(response.header?.revision ?? 0n);',
    tests: ['test/watch', 'test/faults/connections'],
  },
  {
    mistake: 'a watch resumes from now',
    file: 'src/watch/watcher.ts',
    find: 'startRevision: this.#cursor.resume, watchId',
    replace: 'startRevision: 0n, watchId',
    tests: ['test/watch', 'test/faults/connections'],
  },
  {
    mistake: 'a watch resumes at its last event, and not after it',
    file: 'src/watch/revision-cursor.ts',
    find: 'this.#advance(revision + 1n);',
    replace: 'this.#advance(revision);',
    tests: ['test/watch'],
  },
  {
    mistake: 'a write is repeated on UNAVAILABLE',
    file: 'src/channel/retry.ts',
    find: "return error.outcome !== 'unknown' || method.repeatable;",
    replace: 'return true;',
    tests: ['test/channel', 'test/kv', 'test/faults/connections'],
  },
  {
    mistake: 'a certificate is good for any name',
    file: 'src/transport/hosts/node.ts',
    find: 'checkServerIdentity(name, certificate)',
    replace: 'undefined',
    tests: ['test/transport/tls'],
  },
  {
    mistake: 'a certificate that was renewed is used by the first connection only',
    file: 'src/transport/tls.ts',
    find: 'given = await tls();',
    replace: 'given = await ((tls as { first?: TlsOptions | Promise<TlsOptions> }).first ??= tls());',
    tests: ['test/transport/tls'],
  },
  {
    mistake: 'calls that wait for a connection each make their own',
    file: 'src/channel/peers.ts',
    find: 'return leftMs > 0 ? leftMs : backoffMs(attempt);',
    replace: 'return backoffMs(attempt);',
    tests: ['test/channel', 'test/transport/tls'],
  },
  {
    mistake: 'a lease lives from when the answer came',
    file: 'src/lease/keep-alive.ts',
    find: 'const deadline = sentAt + ttlMs',
    replace: 'const deadline = monotonicMs() + 0 * sentAt + ttlMs',
    tests: ['test/lease', 'test/concurrency/holder-lost'],
  },
  {
    mistake: 'a lost lease is not looked for on the clock',
    file: 'src/lease/keep-alive.ts',
    find: 'if (monotonicMs() < this.#deadline) return undefined;',
    replace: 'return undefined;',
    tests: ['test/lease', 'test/concurrency/holder-lost', 'test/faults/holders'],
  },
  {
    mistake: 'unlock deletes the key by its name',
    file: 'src/concurrency/queue-entry.ts',
    find: "client.txn({ if: [compare.createRevision(key, '==', revision)], then: [op.delete(key)] }, options),",
    replace: "client.txn({ if: [compare.createRevision(key, '>', 0n)], then: [op.delete(key)] }, options),",
    tests: ['test/concurrency'],
  },
  {
    mistake: 'a waiter does not compare create revisions',
    file: 'src/concurrency/queue-entry.ts',
    find: 'if (next?.createRevision === predecessor.createRevision) {',
    replace: 'if (next !== undefined) {',
    tests: ['test/concurrency'],
  },
  {
    mistake: 'a waiter goes ahead without looking who is before it',
    file: 'src/concurrency/queue-entry.ts',
    find: 'ahead: result.responses[0].kvs[0] };',
    replace: 'ahead: undefined };',
    tests: ['test/concurrency/mutex', 'test/concurrency/exclusive', 'test/faults/holders'],
  },
  {
    mistake: 'a waiter whose first answer was lost goes ahead without looking who is before it',
    file: 'src/concurrency/queue-entry.ts',
    find: 'first !== undefined && first.createRevision < own.createRevision ? first : undefined',
    replace: 'undefined',
    tests: ['test/concurrency/lost-answers'],
  },
  {
    mistake: 'a transaction of the holder does not compare the token',
    file: 'src/concurrency/held.ts',
    find: "compare.createRevision(this.key, '==', this.token)",
    replace: "compare.createRevision(this.key, '>=', 0n)",
    tests: ['test/concurrency', 'test/faults/holders'],
  },
  {
    mistake: 'a request that GOAWAY covers is moved to another connection',
    file: 'src/transport/http2/connection.ts',
    find: 'if (stream.id <= lastStreamId) {',
    replace: 'if (stream.id < 0) {',
    tests: ['test/transport/http2/goaway'],
  },
  {
    mistake: 'REFUSED_STREAM is taken for proof that nothing was done',
    file: 'src/transport/http2/response-status.ts',
    find: "reason: refused ? 'StreamRefused' : BROKE.has(code) ? 'ConnectionLost' : 'Other',\n    outcome: 'unknown',",
    replace:
      "reason: refused ? 'StreamRefused' : BROKE.has(code) ? 'ConnectionLost' : 'Other',\n    outcome: refused ? 'rejected' : 'unknown',",
    tests: ['test/transport/http2/resets', 'test/transport/proxies'],
  },
  {
    mistake: 'streams stay at a member that has no leader',
    file: 'src/channel/rpc.ts',
    find: "REQUIRE_LEADER: Metadata = { hasleader: 'true' };",
    replace: 'REQUIRE_LEADER: Metadata = {};',
    tests: ['test/faults/silence'],
  },
  {
    mistake: 'a peer that accepts and says nothing is waited for',
    file: 'src/transport/http2/connection.ts',
    find: 'after(connectTimeoutMs, late)',
    replace: 'after(connectTimeoutMs + 3_600_000, late)',
    tests: ['test/faults/silence'],
  },
  {
    mistake: 'endpoints that members advertise are used without TLS where those given have it',
    file: 'src/channel/member-endpoints.ts',
    find: '(!endpoint.tls && !plaintext) || ',
    replace: '',
    tests: ['test/channel/member-endpoints', 'test/cluster/sync'],
  },
  {
    mistake: 'each call whose token was refused fetches a new one',
    file: 'src/channel/token-source.ts',
    find: 'this.#exchange ??= this.#fetch()',
    replace: 'this.#exchange = this.#fetch()',
    tests: ['test/faults/tokens'],
  },
  {
    mistake: 'a contender goes on in a place that was forgotten while it waited',
    file: 'src/concurrency/turn.ts',
    find: '    await seat.localQueue.left(signal);\n',
    replace:
      '    await seat.localQueue.left(signal);\n    const again = seat.localQueue.tryEnter();\n    if (again !== undefined) return placeIn(session, key, seat, again);\n',
    tests: ['test/concurrency/guarded-seat'],
  },
  {
    mistake: 'a lease lives from the last attempt to grant it',
    file: 'src/lease/lease.ts',
    find: 'sentAt ||= monotonicMs();',
    replace: 'sentAt = monotonicMs();',
    tests: ['test/lease'],
  },
  {
    mistake: 'watches end where a learner is tried',
    file: 'src/channel/channel.ts',
    find: "? 'FailedPrecondition' : 'Unavailable'",
    replace: "? 'FailedPrecondition' : 'FailedPrecondition'",
    tests: ['test/channel/learner'],
  },
  {
    mistake: 'creations of watches go out together to a server that chooses the ids and answers in any order',
    file: 'src/watch/watch-stream.ts',
    find: 'if (this.#requested.size > 0 && (this.#keepsIds !== true || this.#oneByOne)) return;',
    replace: '',
    tests: ['test/fuzz/watch.test'],
  },
  {
    mistake: 'a progress reply that comes ahead of events moves resume points',
    file: 'src/watch/watch-stream.ts',
    find: 'if (!inOrder || this.#stream !== stream) return;',
    replace: 'if (this.#stream !== stream) return;',
    tests: ['test/fuzz/watch.test'],
  },
  {
    mistake: 'a watch goes on in silence when the store went back',
    file: 'src/channel/cluster-identity.ts',
    find: 'if (revision < seenBefore && isLinearizable(call))',
    replace: 'if (revision < 0n && isLinearizable(call))',
    tests: ['test/fuzz/watch.test'],
  },
  {
    mistake: 'answers of another cluster are taken for those of this one',
    file: 'src/channel/cluster-identity.ts',
    find: 'if (this.#clusterId === 0n) {',
    replace: 'if (clusterId !== 0n) {',
    tests: ['test/channel/restored'],
  },
  {
    mistake: 'a late copy of a campaign brings an old value back',
    file: 'src/concurrency/queue-entry.ts',
    find: 'op.put(key, value, { lease })],\n        else: entered(key, queue),\n      },\n      options,\n    );\n  const result = await untilAnswered(signal, enter, onUnknown);\n  const seenAt = result.header.revision;\n  if (result.succeeded) return { entry',
    replace:
      "op.put(key, value, { lease })],\n        else: [...entered(key, queue), op.txn({ if: [compare.value(key, '!=', value)], then: [op.put(key, value, { lease })] })],\n      },\n      options,\n    );\n  const result = await untilAnswered(signal, enter, onUnknown);\n  const seenAt = result.header.revision;\n  if (result.succeeded) return { entry",
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    mistake: 'a late copy of a proclamation brings an old value back',
    file: 'src/concurrency/election.ts',
    find: "compare.modRevision(this.key, '==', this.#modRevision)",
    replace: "compare.modRevision(this.key, '>', 0n)",
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    mistake: 'a late copy of an acquire leaves a key that blocks the queue',
    file: 'src/concurrency/late-puts.ts',
    find: 'await Promise.all(keys.map((key) => this.#released.get(idOf(key))?.clear()));',
    replace: '',
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    mistake: 'a late copy of an enqueue brings an item back that was taken',
    file: 'src/concurrency/queue.ts',
    find: ', this.#generation.isUnchanged]',
    replace: ']',
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    mistake: "the caller's own buffer is kept",
    file: 'src/bytes.ts',
    find: 'return copyOf(plain(value), 0, value.length);',
    replace: 'return plain(value);',
    tests: ['test/caller-buffers'],
  },
];
