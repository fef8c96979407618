/**
 * A bug that other clients have had, as a change to our code. At least one of the tests in `tests` must detect the
 * bug. In the descriptions, a late put is a put whose response was lost and that the server applies later.
 */
export interface Mutation {
  readonly bug: string;
  readonly file: string;
  /** The code to replace. The file contains this text exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Paths of test files, or prefixes of such paths. */
  readonly tests: readonly string[];
  /**
   * Why no simulated history can show the bug. Undefined if one can. Bugs in `src/transport/` and `src/host/` need no
   * reason, because the simulated network replaces these folders.
   */
  readonly notSimulated?: string;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    bug: 'a watch resumes at the revision of a response header',
    file: 'src/watch/server-watch.ts',
    find: 'this.#cursor.delivered(batch.revision);',
    replace: 'this.#cursor.delivered(response.header?.revision ?? batch.revision);',
    tests: ['test/watch', 'test/faults/connections'],
  },
  {
    bug: 'a watch resumes at the current revision',
    file: 'src/watch/server-watch.ts',
    find: 'startRevision: this.#cursor.resume, watchId',
    replace: 'startRevision: 0n, watchId',
    tests: ['test/watch', 'test/faults/connections'],
  },
  {
    bug: 'a watch resumes at the revision of its last event instead of the next revision',
    file: 'src/watch/server-watch.ts',
    find: 'const next = revision + 1n;',
    replace: 'const next = revision;',
    tests: ['test/watch'],
  },
  {
    bug: 'the client repeats a write after UNAVAILABLE',
    file: 'src/channel/attempts.ts',
    find: "return error.outcome !== 'unknown' || method.repeatable;",
    replace: 'return true;',
    tests: ['test/channel', 'test/kv', 'test/faults/connections'],
  },
  {
    bug: 'the client accepts a certificate with any name',
    file: 'src/host/node.ts',
    find: 'checkServerIdentity(name, certificate)',
    replace: 'undefined',
    tests: ['test/transport/tls'],
  },
  {
    bug: 'only the first connection reads a renewed certificate',
    file: 'src/host/tls.ts',
    find: 'given = await tls();',
    replace: 'given = await ((tls as { first?: TlsOptions | Promise<TlsOptions> }).first ??= tls());',
    tests: ['test/transport/tls'],
  },
  {
    bug: 'each call that waits for a connection opens a connection of its own',
    file: 'src/channel/endpoint-pool.ts',
    find: 'return leftMs > 0 ? leftMs : backoffMs(attempt);',
    replace: 'return backoffMs(attempt);',
    tests: ['test/channel', 'test/transport/tls'],
  },
  {
    bug: 'the backoff before a new keepalive stream ignores the TTL',
    file: 'src/lease/renewal-stream.ts',
    find: '    for (const lease of this.#leases.values()) delayMs = Math.min(delayMs, maxBackoffMs(lease));\n',
    replace: '',
    tests: ['test/fuzz/lease.test.ts'],
  },
  {
    bug: 'the lifetime of a lease starts when the response arrives',
    file: 'src/lease/keep-alive.ts',
    find: 'const deadline = sentAt + ttlMs',
    replace: 'const deadline = monotonicMs() + 0 * sentAt + ttlMs',
    tests: ['test/lease', 'test/concurrency/holder-lost'],
  },
  {
    bug: 'a session does not check the clock for an expired lease',
    file: 'src/lease/keep-alive.ts',
    find: 'if (monotonicMs() < this.#deadline) return undefined;',
    replace: 'return undefined;',
    tests: ['test/lease', 'test/concurrency/holder-lost', 'test/faults/holders'],
  },
  {
    bug: 'unlock deletes the queue key without checking its create revision',
    file: 'src/concurrency/lock-queue.ts',
    find: "client.txn({ if: [compare.createRevision(key, '==', createRevision)], then: [op.delete(key)] }, options),",
    replace: "client.txn({ if: [compare.createRevision(key, '>', 0n)], then: [op.delete(key)] }, options),",
    tests: ['test/concurrency'],
  },
  {
    bug: 'a waiter does not notice that its predecessor left the queue and entered it again',
    file: 'src/concurrency/lock-queue.ts',
    find: 'if (next?.createRevision === predecessor.createRevision) {',
    replace: 'if (next !== undefined) {',
    tests: ['test/concurrency'],
  },
  {
    bug: 'a waiter takes the lock without checking for earlier queue keys',
    file: 'src/concurrency/lock-queue.ts',
    find: 'predecessor: result.responses[0].kvs[0] };',
    replace: 'predecessor: undefined };',
    tests: ['test/concurrency/mutex', 'test/concurrency/exclusive', 'test/faults/holders'],
  },
  {
    bug: 'a waiter whose first response was lost takes the lock without checking for earlier queue keys',
    file: 'src/concurrency/lock-queue.ts',
    find: 'first !== undefined && first.createRevision < found.createRevision ? first : undefined',
    replace: 'undefined',
    tests: ['test/concurrency/lost-answers'],
  },
  {
    bug: 'a transaction of the holder does not check the fencing token',
    file: 'src/concurrency/lock.ts',
    find: "compare.createRevision(this.key, '==', this.token)",
    replace: "compare.createRevision(this.key, '>', 0n)",
    tests: ['test/concurrency', 'test/faults/holders'],
  },
  {
    bug: 'a request that GOAWAY reports as processed is sent again on another connection',
    file: 'src/transport/http2/connection.ts',
    find: 'if (stream.id <= lastStreamId) {',
    replace: 'if (stream.id < 0) {',
    tests: ['test/transport/http2/goaway'],
  },
  {
    bug: 'when a call ends while the client closes, the next waiting call starts',
    file: 'src/transport/http2/connection.ts',
    find: '    queueMicrotask(() => {\n      this.#opening = false;\n      this.#openWaiting();\n    });',
    replace: '    this.#opening = false;\n    this.#openWaiting();',
    tests: ['test/fuzz/http2-peer'],
  },
  {
    bug: 'a call that waited for a free stream starts after its deadline',
    file: 'src/transport/http2/connection.ts',
    find: 'if (!stream.mayOpen(now)) return;',
    replace: '',
    tests: ['test/fuzz/http2-peer'],
  },
  {
    bug: 'the client keeps a connection after a call on it timed out without any data from the server',
    file: 'src/transport/http2/client-call.ts',
    find: '    this.#stream?.expired();\n',
    replace: '',
    tests: ['test/fuzz/http2-peer'],
  },
  {
    bug: 'the client keeps a silent connection with open streams',
    file: 'src/transport/http2/pinger.ts',
    find: '    this.#options.ping(this.#count);\n    this.#armJudgement(now);',
    replace: '    this.#options.ping(this.#count);',
    tests: ['test/fuzz/http2-peer'],
  },
  {
    bug: 'the client pings more often than etcd allows',
    file: 'src/transport/http2/pinger.ts',
    find: 'const MAX_STRIKES = 1;',
    replace: 'const MAX_STRIKES = 100;',
    tests: ['test/transport/http2/silent-peer'],
  },
  {
    bug: 'the client closes a connection when a blocked event loop delays the response to a ping',
    file: 'src/transport/http2/pinger.ts',
    find: 'this.#arm(due - now, () => this.#arm(GRACE_MS, () => this.#judge()));',
    replace: 'this.#arm(due - now, () => this.#judge());',
    tests: ['test/transport/http2/silent-peer'],
  },
  {
    bug: 'for each WINDOW_UPDATE the client visits every stream that has data to send',
    file: 'src/transport/http2/flow-control.ts',
    find: 'if (stream.sendWindowBytes > 0) this.#waiting.add(stream);',
    replace: 'this.#waiting.add(stream);',
    tests: ['test/transport/http2/growth'],
  },
  {
    bug: 'the client accepts any number of tiny WINDOW_UPDATE frames',
    file: 'src/transport/http2/peer-frames.ts',
    find: "    this.#target.limits.useless('WINDOW_UPDATE');\n",
    replace: '',
    tests: ['test/fuzz/http2-peer'],
  },
  {
    bug: 'the client accepts any number of SETTINGS frames that change the windows',
    file: 'src/transport/http2/peer-frames.ts',
    find: '      limits.windowsChanged(streams.size);\n',
    replace: '',
    tests: ['test/fuzz/http2-peer'],
  },
  {
    bug: 'the client treats REFUSED_STREAM as proof that the server did nothing',
    file: 'src/transport/http2/response.ts',
    find: "reason: refused ? 'StreamRefused' : LOST_BY_RESET.has(code) ? 'ConnectionLost' : 'Other',\n    outcome: 'unknown',",
    replace:
      "reason: refused ? 'StreamRefused' : LOST_BY_RESET.has(code) ? 'ConnectionLost' : 'Other',\n    outcome: refused ? 'rejected' : 'unknown',",
    tests: ['test/transport/http2/resets', 'test/transport/proxies'],
  },
  {
    bug: 'streams stay on a member that has no leader',
    file: 'src/channel/rpc.ts',
    find: "REQUIRE_LEADER: Metadata = { hasleader: 'true' };",
    replace: 'REQUIRE_LEADER: Metadata = {};',
    tests: ['test/faults/silence'],
  },
  {
    bug: 'the client waits forever for a peer that accepts a connection and sends nothing',
    file: 'src/transport/http2/connection.ts',
    find: 'after(connectTimeoutMs, onTimeout)',
    replace: 'after(connectTimeoutMs + 3_600_000, onTimeout)',
    tests: ['test/faults/silence'],
  },
  {
    bug: 'the client uses advertised endpoints without TLS although the configured endpoints use TLS',
    file: 'src/channel/endpoint-discovery.ts',
    find: '(!endpoint.tls && !plaintext) || ',
    replace: '',
    tests: ['test/channel/endpoint-discovery', 'test/cluster/sync'],
    notSimulated: 'the simulated network has no TLS',
  },
  {
    bug: 'each call with a refused token authenticates on its own',
    file: 'src/channel/authentication.ts',
    find: 'this.#request ??= this.#fetch()',
    replace: 'this.#request = this.#fetch()',
    tests: ['test/faults/tokens'],
  },
  {
    bug: 'a contender uses its queue key while the session deletes a late put of that key',
    file: 'src/concurrency/late-puts.ts',
    find: 'await orAborted(deletion, signal);',
    replace: 'break;',
    tests: ['test/concurrency/late-puts'],
  },
  {
    bug: 'the lifetime of a lease starts at the last attempt to grant it',
    file: 'src/lease/leases.ts',
    find: 'sentAt ||= monotonicMs();',
    replace: 'sentAt = monotonicMs();',
    tests: ['test/lease'],
  },
  {
    bug: 'watches end when the client tries a learner',
    file: 'src/channel/channel.ts',
    find: "? 'FailedPrecondition' : 'Unavailable'",
    replace: "? 'FailedPrecondition' : 'FailedPrecondition'",
    tests: ['test/channel/learner'],
  },
  {
    bug: 'the client sends several requests to create watches at once to a server that chooses the IDs',
    file: 'src/watch/watch-ids.ts',
    find: 'if (this.#requested.size > 0 && (this.#keepsIds !== true || this.#oneByOne)) return;',
    replace: '',
    tests: ['test/fuzz/watch.test.ts'],
  },
  {
    bug: 'a progress response that arrives before events moves the resume revision',
    file: 'src/watch/watch-stream.ts',
    find: 'if (!inOrder || this.#stream !== stream) return;',
    replace: 'if (this.#stream !== stream) return;',
    tests: ['test/fuzz/watch.test.ts'],
  },
  {
    bug: 'a watch continues silently after the store was restored from a backup',
    file: 'src/channel/cluster-identity.ts',
    find: 'if (revision < seenBefore && isLinearizable(call))',
    replace: 'if (revision < 0n && isLinearizable(call))',
    tests: ['test/fuzz/watch.test.ts'],
  },
  {
    bug: 'the client accepts responses from another cluster',
    file: 'src/channel/cluster-identity.ts',
    find: 'if (this.#clusterId === 0n) {',
    replace: 'if (clusterId !== 0n) {',
    tests: ['test/channel/restored'],
  },
  {
    bug: 'a late put of a campaign restores an old value',
    file: 'src/concurrency/lock-queue.ts',
    find: 'op.put(key, value, { lease })],\n        else: ownAndFirst(key, queue),\n      },\n      options,\n    );\n  const result = await untilAnswered(signal, enter, onUnknown);\n  const seenAt = result.header.revision;\n  if (result.succeeded) return { own',
    replace:
      "op.put(key, value, { lease })],\n        else: [...ownAndFirst(key, queue), op.txn({ if: [compare.value(key, '!=', value)], then: [op.put(key, value, { lease })] })],\n      },\n      options,\n    );\n  const result = await untilAnswered(signal, enter, onUnknown);\n  const seenAt = result.header.revision;\n  if (result.succeeded) return { own",
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    bug: 'a late put of a proclamation restores an old value',
    file: 'src/concurrency/election.ts',
    find: "compare.modRevision(this.key, '==', this.#modRevision)",
    replace: "compare.modRevision(this.key, '>', 0n)",
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    bug: 'a late put of an attempt to acquire a lock leaves a key that blocks the queue',
    file: 'src/concurrency/late-puts.ts',
    find: 'await Promise.all(keys.map((key) => this.#delete(idOf(key), key)));',
    replace: '',
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    bug: 'a late put of an enqueue call restores an item that was taken',
    file: 'src/concurrency/queue.ts',
    find: ', this.#generation.isUnchanged]',
    replace: ']',
    tests: ['test/concurrency/late-duplicates'],
  },
  {
    bug: "the client keeps a reference to the caller's buffer",
    file: 'src/runtime/bytes.ts',
    find: 'return copyOf(plain(value), 0, value.length);',
    replace: 'return plain(value);',
    tests: ['test/fuzz/watch.test.ts'],
    notSimulated: 'no workload changes a buffer after a call',
  },
  {
    bug: 'a write over the gateway does not check the revision of its guard key',
    file: 'src/transport/gateway/write-guards.ts',
    find: "compare: [{ ...unmoved, targetUnion: { case: 'modRevision', value: revision } }],",
    replace: 'compare: revision < 0n ? [unmoved] : [],',
    tests: ['test/gateway/resending-generated'],
  },
  {
    bug: 'for each created watch the client searches all pending requests to create watches',
    file: 'src/watch/watch-ids.ts',
    find: 'if (this.#keepsIds === true) return this.#requested.has(watchId) ? watchId : undefined;',
    replace: 'if (this.#keepsIds === true) return [...this.#requested.keys()].find((id) => id === watchId);',
    tests: ['test/watch/growth'],
    notSimulated: 'the bug costs time, and simulated code takes no time',
  },
];
