import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listen, MemoryEtcd } from '../../../src/testing/index.js';
import { observedServer } from '../src/learn/check.js';
import { CHECKS } from '../src/learn/checks.js';
import { COURSE, copyProgram, ROOT, readChapters } from '../src/learn/course.js';

// Runs the checks of the course with wrong answers to its exercises, and with the wrong programs of its chapters. A check
// must fail with a message about the mistake.

/** The answer of the course, the lines that take its place, and a part of the message. */
type Mistake = readonly [mistake: string, right: string | RegExp, wrong: string, message: string];

const SEQUENTIAL = `const values: (string | undefined)[] = [];
  for (const key of keys) {
    const [kv] = (await request(connection, '/etcdserverpb.KV/Range', { 1: key })).messages(2);
    values.push(kv && \`\${kv.bytes(5)}\`);
  }
  return values;`;
const EACH_EVENT_ALONE = 'for (const event of events) yield [event];';
const LOST_ACTION = /const reason =[\s\S]*?throw error;/;
const RETHROW = 'if (!(error instanceof EtcdError)) throw error;';
const ONLY_LOCK_LOST = "if (!(error instanceof EtcdError && error.reason === 'LockLost')) throw error;";
const WITHOUT_LOCK = `const lines = (await etcd.get(key))?.text() ?? '';\n await etcd.put(key, \`\${lines}\${line}\\n\`);\n}\n`;
const TXN = /const request = [\s\S]*?return next;/;

/** The mistakes by the name of the chapter and the function. */
const MISTAKES: Readonly<Record<string, readonly Mistake[]>> = {
  '01-preface settings': [
    ['writes the length of one entry', '(6 * entries.length, 0, 3)', '(6, 0, 3)', 'first difference: byte 2'],
    [
      'writes the value in two bytes',
      /writeUInt32BE\(value, 11/,
      'writeUInt16BE(value & 65535, 11',
      'first difference: byte 18',
    ],
    ['writes the least significant byte first', /writeUInt16BE\(number/, 'writeUInt16LE(number', 'got the bytes'],
  ],
  '01-preface isHttp2': [
    ['reads fewer bytes than a header', '>= 9 &&', '>= 4 &&', 'less than a header'],
    ['ignores the stream', ' && received.readUInt32BE(5) === 0', '', 'isHttp2 of a frame on stream 1'],
    ['throws for too few bytes', 'received.length >= 9 && ', '', 'the function threw "RangeError'],
  ],
  '01-preface openWithin': [
    ['reads the bytes of the caller', "once('readable'", "once('data'", 'openWithin has read the bytes'],
    ['leaves the socket open after the timeout', '      socket.destroy();\n', '', 'its socket is still open'],
    [
      'waits only for the connection',
      "once('readable'",
      "once('connect'",
      'at a silent server, with ms = 50: resolved with',
    ],
  ],
  '02-frames describe': [
    ['takes flag 1 of each frame for ACK', '(type === SETTINGS || type === PING) && flags', 'flags', "got 'DATA ACK"],
    ['forgets that SETTINGS has ACK', 'type === SETTINGS || ', '', "expected 'SETTINGS ACK"],
    ['counts only the types of the table', "'PRIORITY', ", '', "got 'GOAWAY ACK"],
  ],
  '02-frames readLimitedFrames': [
    [
      'waits for the whole frame',
      'rest.length >= 3)',
      'rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3))',
      'the end, without an error',
    ],
    ['refuses the longest frame that is allowed', 'length > maxLength', 'length >= maxLength', 'a frame has 1 bytes'],
  ],
  '02-frames roundTripMs': [
    ['stops at any frame', /if \(type === PING && .*\)\)\) /, '', 'another frame was taken for the answer'],
    [
      'stops at a PING of the server',
      / && flags === ACK.*'measured'\)\)/,
      '',
      'another frame was taken for the answer',
    ],
    ['compares only the flag', " && payload.equals(Buffer.from('measured'))", '', 'another frame was taken'],
    ['compares only the bytes', 'flags === ACK && payload', 'payload', 'another frame was taken'],
  ],
  '03-headers encodeInteger': [
    ['fits the greatest number into the first byte', 'value < max', 'value <= max', 'encodeInteger(31, 5)'],
    ['ends with a byte too few', 'rest >= 128', 'rest > 128', 'encodeInteger(159, 5)'],
    ['shifts numbers of 32 bits', 'Math.floor(rest / 128)', 'rest >> 7', 'encodeInteger(4294967296, 7)'],
  ],
  '03-headers encodeHuffman': [
    ['fills the last byte with zeros', "'1')", "'0')", "encodeHuffman('www.example.com')"],
    ['drops the zeros at the beginning of a code', ".padStart(count, '0')", '', 'got the bytes'],
    [
      'fills a byte that is full',
      'Math.ceil(bits.length / 8) * 8',
      'Math.ceil((bits.length + 1) / 8) * 8',
      "encodeHuffman('aaaaaaaa')",
    ],
  ],
  '03-headers encodePostOverHttp': [
    ['forgets the first bit', '0x83, 0x86', '3, 6', 'got the bytes 0306'],
    ['counts the entries from 2 as 1', '0x83, 0x86', '0x82, 0x85', 'got the bytes 8285'],
  ],
  '04-protobuf list': [
    [
      'reads a tag of one byte',
      'readVarint(message, at)',
      '{ value: BigInt(message.readUInt8(at)), end: at + 1 }',
      "expected [ '1: 600'",
    ],
    ['does not skip the bytes', '(isBytes ? Number(number.value) : 0)', '0', "expected [ '1: 600'"],
  ],
  '04-protobuf zigzag': [
    ['maps -1 to 2', ' - 1n', '', 'zigzag(-1n): got 2n, expected 1n'],
    [
      'uses a number',
      'value < 0n ? -2n * value - 1n',
      'value < 0n ? BigInt(-2 * Number(value) - 1)',
      'zigzag(-9223372036854775808n)',
    ],
  ],
  '04-protobuf merge': [
    [
      'lets the first message win',
      '[encode(first), encode(second)]',
      '[encode(second), encode(first)]',
      "got { '1': 1n, '2': 'old' }",
    ],
    ['drops the first message', 'encode(first), ', '', "got { '1': 0n, '2': 'new' }"],
  ],
  '05-call put': [
    [
      'does not wait for the response',
      /await (request\(connection, '\/etcdserverpb\.KV\/Put'.*\));/,
      'void $1.catch(() => {});',
      'before the response had ended',
    ],
    [
      'exchanges the key and the value',
      '1: key, 2: value',
      '1: value, 2: key',
      'the value of the key after put: got undefined',
    ],
  ],
  '05-call getAll': [
    [
      'makes the calls one after the other',
      /return Promise\.all\([\s\S]*?^ {2}\);/m,
      SEQUENTIAL,
      'expected all at once',
    ],
    [
      'returns an empty text for a missing key',
      `kv && \`\${kv.bytes(5)}\``,
      `\`\${kv?.bytes(5) ?? ''}\``,
      "got [ 'a', '', 'c' ]",
    ],
  ],
  '05-call version': [
    ['reads another field', 'bytes(2)}`', 'bytes(3)}`', 'version(connection): got'],
    [
      'returns bytes',
      /`\$\{(\(await.*\{\}\)\))\.bytes\(2\)\}`/,
      "(await request(connection, '/etcdserverpb.Maintenance/Status', {})).bytes(2) as never",
      'got the bytes',
    ],
  ],
  '06-status isOutcomeUnknown': [
    ['takes status 15 for a refusal', '![3, 5, 7, 12]', '[1, 2, 4, 13, 14]', 'status 8: got false, expected true'],
    ['takes status 14 only for unknown', '![3, 5, 7, 12].includes(status)', 'status === 14', 'status 1: got false'],
  ],
  '06-status callWithin': [
    [
      'throws status 14',
      ', { status: 4 }',
      ', { status: 14 }',
      'with { status: 14 }, expected an error with { status: 4 }',
    ],
    ['throws another error', 'new CallError(`no', 'new Error(`no', 'not a CallError'],
    [
      'reports each error as a timeout',
      'return Promise.race([call(connection, path, request), late])',
      'return Promise.race([call(connection, path, request).catch(() => late), late])',
      'with { status: 4 }, expected an error with { status: 5 }',
    ],
    [
      'throws an error without a text',
      'return Promise.race([call(connection, path, request), late])',
      "return Promise.race([Promise.reject(Object.assign(new CallError(''), { status: 2 })), late])",
      'the function threw "Error" (status 2)',
    ],
  ],
  '06-status read': [
    ['makes one attempt more', 'attempt === attempts', 'attempt > attempts', 'got 4, expected 3'],
    ['repeats a call that was refused', ' || error.status !== 14', '', 'got 3, expected 1'],
    [
      'repeats the call on the lost connection',
      /for \(let attempt = 1; ; attempt \+= 1\) \{\n\s+const connection = (.*);/,
      'const connection = $1;\n for (let attempt = 1; ; attempt += 1) {',
      'read finds on the third connection',
    ],
  ],
  '07-watch watchPrefix': [
    [
      'waits after a canceled watch',
      /^ +if \(response\.int\(4\).*\n/m,
      '',
      '"permission denied": no result after 10 s',
    ],
    ['yields each change alone', 'yield events;', EACH_EVENT_ALONE, "got '/a=1 | /b=2'"],
    ['begins again after a cut', 'next = last.revision + 1n', 'void next', 'with a lost connection after each'],
    ['ends each range with 0', 'endOf(prefix)', `\`\${prefix.slice(0, -1)}0\``, '.b=2'],
    ['forgets field 6', ', 6: 1 }', ' }', 'put, previous ""'],
    ['reads the value after the change', 'event.messages(3)[0]];', 'event.messages(2)[0]];', 'previous "1"'],
    [
      'looks at field 4 first',
      /(const compactRevision.*\n.*\n)( +if \(response\.int\(4\).*\n)/,
      '$2$1',
      'with { compactRevision: undefined }',
    ],
    [
      'reports a number',
      '{ compactRevision })',
      '{ compactRevision: Number(compactRevision) })',
      'expected an error with { compactRevision',
    ],
  ],
  '08-lease secondsLeft': [
    ['reads the TTL at the beginning', 'int(3)', 'int(4)', 'got 0n, expected -1n'],
    [
      'returns a number',
      /return (\(await call.*int\(3\));/,
      'return Number($1) as never;',
      '(number), expected about 100n',
    ],
  ],
  '08-lease putWithLease': [
    ['forgets the lease', ', 3: id', '', "after the end of the lease: got 'x', expected undefined"],
    ['forgets the value', '2: value, ', '', "after putWithLease: got '', expected 'x'"],
  ],
  '08-lease leases': [
    ['returns the first lease only', 'messages(2).map', 'messages(2).slice(0, 1).map', 'expected that it contains'],
    ['reads another field', 'lease.int(1)', 'lease.int(2)', 'got [0'],
  ],
  '09-queue create': [
    [
      'resolves with true always',
      '.int(TXN_RESPONSE.succeeded) === 1n',
      '.int(TXN_RESPONSE.succeeded) >= 0n',
      'got true, expected false',
    ],
    ['puts the key in any case', '[put], [])', '[put], [put])', "after the second create: got 'b', expected 'a'"],
  ],
  '09-queue increment': [
    [
      'writes without a condition',
      TXN,
      `await call(connection, '/etcdserverpb.KV/Put', { 1: key, 2: \`\${next}\` });\n void put; void unchanged; return next;`,
      'the sorted results of 20 concurrent calls',
    ],
    ['compares the create revision', 'KEY_VALUE.modRevision', 'KEY_VALUE.createRevision', 'increment of 41: no result'],
    ['resolves with the old number', 'return next;', 'return next - 1;', 'the sorted results of 20 concurrent calls'],
  ],
  '09-queue queueOf': [
    ['leaves the order to etcd', ', ...byCreation', '', 'was put again: got'],
    ['sorts by the last change', 'SORT.byCreateRevision', '3', 'was put again: got'],
    ['begins with the last key', 'SORT.ascending', 'SORT.descending', 'was put again: got'],
  ],
  '10-lock withLock': [
    [
      'keeps the lock after an error',
      /try \{\n(.*await action.*)\n.*finally \{\n(.*)\n {2}\}/,
      'const result = await action(held.token);\n await held.unlock();\n return result;',
      'the key of the holder after the release',
    ],
    ['does not return the result', 'return await action', 'await action', "got undefined, expected 'result'"],
    [
      'passes something else to the action',
      'action(held.token)',
      'action(0n)',
      'the token that withLock has passed to the action: got 0n',
    ],
  ],
  '10-lock tryLock': [
    [
      'stays in the queue',
      '  await unlock();\n  return undefined;',
      '  return undefined;',
      'the keys in the queue after the key of the holder',
    ],
    ['throws if the lock is held', 'return undefined;', "throw new Error('held');", 'the function threw "Error: held"'],
    ['says that it has the lock', 'isFirst && ', '', 'for a lock that is held: got'],
  ],
  '10-lock lockUntil': [
    [
      'resolves without its key',
      /^ +if \(!\(await isQueued.*\n/gm,
      '',
      'lockUntil resolved although its lease had ended',
    ],
    ['throws another error', 'reject(signal.reason)', "reject(new Error('aborted'))", 'got the error "Error: aborted"'],
    ['stays in the queue', 'await unlock().catch(() => {});', '', 'the keys in the queue after the key of the holder'],
    [
      'ignores a signal that has aborted before',
      'if (signal.aborted) abort();',
      '',
      'with a signal that has aborted before: no result',
    ],
  ],
  '11-etcdwire addLine': [
    ['takes no lock', /await withLock[\s\S]*?^}\n/m, WITHOUT_LOCK, 'the sorted lines after ten concurrent calls'],
    [
      'writes with put',
      /held\.txn\(.*\)/,
      `etcd.put(key, \`\${lines}\${line}\\n\`)`,
      'wrote with a Put that has no condition, expected held.txn',
    ],
    ['writes the new line only', `\${lines}`, '', "got [ 'line"],
  ],
  '11-etcdwire lockWithin': [
    [
      'leaves the client open',
      /^ {4}await etcd\.close\(\);\n/m,
      '',
      'open after lockWithin has resolved with undefined: got',
    ],
    [
      'throws if the lock is held',
      "error.reason === 'LockTaken'",
      "error.reason === 'LockLost'",
      'the function threw "EtcdError',
    ],
  ],
  '11-etcdwire runUntilDone': [
    ['repeats after each EtcdError', LOST_ACTION, RETHROW, 'an action that throws an EtcdError while it has the lock'],
    [
      'repeats after no error of the action',
      LOST_ACTION,
      ONLY_LOCK_LOST,
      'after it has lost the lock: the function threw "Error: stopped"',
    ],
    ['counts the runs that failed', 'return runs;', 'return runs - 1;', 'got 1, expected 2'],
  ],
  '12-break-it writeOutcome': [
    [
      'needs the status',
      "if (method !== 'Txn')",
      "if (status === undefined) return 'unknown';\n if (method !== 'Txn')",
      "HEADERS have arrived: got 'unknown', expected 'applied'",
    ],
    [
      'takes the beginning of an answer for success',
      "if (method !== 'Txn') return hasAnswer",
      'if (hasAnswer && !responses[0] || method !== "Txn") return hasAnswer',
      "got 'applied', expected 'unknown'",
    ],
    [
      'takes each error for a refusal',
      "REFUSED.has(status) ? 'rejected' : 'unknown'",
      "'rejected'",
      "with status 14: got 'rejected'",
    ],
  ],
  '12-break-it slowestRenewal': [
    ['leaves out renewals without an answer', '?? Number.POSITIVE_INFINITY', '?? ms', 'expected Infinity'],
    [
      'looks at the first connection',
      "=== 'LeaseKeepAlive')",
      "=== 'LeaseKeepAlive').slice(0, 1)",
      'expected Infinity',
    ],
    [
      'returns the last delay',
      'Math.max(0, ...delays)',
      'delays.at(-1) ?? 0',
      'renewals of 20, 50 and 1 ms: got 1, expected 50',
    ],
  ],
  '12-break-it findFault': [
    [
      'subtracts the times of two clocks',
      'durationOf(sent) - durationOf(first)',
      '(first.requests[0]?.ms ?? 0) - (sent.requests[0]?.ms ?? 0)',
      "5 s earlier: got 'delay', expected 'none'",
    ],
    ['takes a slow etcd for a delay', ' - durationOf(first)', '', "of which etcd needed 890 ms: got 'delay'"],
    [
      'does not count the copies',
      "if (arrived.length > 1) return 'duplicate';",
      '',
      "with the fault duplicate: got 'none'",
    ],
  ],
};

const CHAPTERS = readChapters();
const FOLDER = `${ROOT}.cache/learn-wrong-${process.pid}`;
beforeAll(() => mkdirSync(FOLDER, { recursive: true }));
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

/** Writes the answers of a chapter with a mistake. Resolves with the exports of the chapter and of these answers. */
async function withMistake(name: string, file: string, right: string | RegExp, wrong: string): Promise<object> {
  const answers = readFileSync(`${COURSE}answers/${name}.ts`, 'utf8');
  // In the place of a text, a dollar sign stands for itself. In the place of a pattern, $1 is its first group.
  const changed = typeof right === 'string' ? answers.replace(right, () => wrong) : answers.replace(right, wrong);
  expect(changed).not.toBe(answers);
  const asynchronous = changed.replace('export function getAll', 'export async function getAll');
  writeFileSync(`${FOLDER}/${file}`, asynchronous.replaceAll("'../", "'../../packages/learn/course/"));
  const [program, answer] = await Promise.all([import(`${COURSE}${name}.ts`), import(`${FOLDER}/${file}`)]);
  return { ...program, ...answer };
}

// The tests run concurrently, because their checks mostly wait. Each has an etcd of its own, because some of them
// delete old revisions.
const ROWS = Object.entries(MISTAKES).flatMap(([id, mistakes]) =>
  mistakes.map(([mistake, ...rest], index) => [id, mistake, index, ...rest] as const),
);
test.concurrent.each(ROWS)(
  'a check of %s names the mistake of an answer that %s',
  async (id, _mistake, index, right, wrong, message) => {
    const [name = '', needs = ''] = id.split(' ');
    const exports = await withMistake(name, `${needs}-${index}.ts`, right, wrong);
    await using listener = await listen(new MemoryEtcd());
    const errors: string[] = [];
    for (const check of CHECKS[Number(name.slice(0, 2))] ?? [])
      if (check.needs === needs)
        await check.run(exports, new URL(listener.endpoint).host).catch((error) => errors.push(`${error}`));
    expect(errors.join('\n')).toContain(message);
  },
);

/** What the checks say about the program of each chapter with the mistake of its section "What goes wrong without it". */
const BROKEN = [
  'the first bytes of the server after open: no result after 10 s',
  'cut into pieces of length 1: got []',
  "expected { ':status': '200', 'grpc-status': '0'",
  'encode({ 1: 600, 2: 7n }): got the bytes 08581007',
  'the bytes in the response to call 62: no result after 10 s',
  "expected an error with { status: 5, message: 'etcdserver: requested lease not found' }",
  'the values of 30 puts, with two lost connections',
  'isAlive() after 3.5 s, with renewals: got false, expected true',
  'waitForTurn resolved after the key directly ahead was deleted',
  'put after the end of the lease: got true, expected false',
  'put, whose response is lost: resolved with false',
  'outcomeOf: got "failed" for both',
];

/** More mistakes in the programs. The checks of the chapter with this number find the mistake. */
const WRONG_PROGRAMS: readonly (readonly [chapter: number, name: string, ...Mistake])[] = [
  [
    1,
    '01-preface',
    'sends another setting',
    '  0001 00000000',
    '  0002 00000000',
    'the first bytes that open sends: got',
  ],
  [2, '02-frames', 'reads the reserved bit', ' & 0x7fffffff', '', 'stream: 4294967295'],
  [3, '03-headers', 'reads one byte of each number', 'value < max ? 0 : 128', '0', 'decodeHeaders of'],
  [3, '03-headers', 'reads five bits instead of four', 'kind >= 32 ? 5 : 4', '5', 'decodeHeaders of'],
  [5, '05-call', 'does not answer SETTINGS', /if \(type === h2.SETTINGS.*\n +else /, '', "got [ 'PING ACK measured' ]"],
  [
    5,
    '05-call',
    'answers SETTINGS with ACK',
    'SETTINGS && flags !== h2.ACK',
    'SETTINGS',
    "got [ 'type 4 ACK', 'type 4",
  ],
  [5, '05-call', 'does not answer PING', 'type === h2.PING', 'type < 0', 'the payload "measured": no result'],
  [6, '05-call', 'updates no window of a stream', '[0, stream]', '[0]', 'the value that call has got: no result'],
  [6, '05-call', 'ignores a stream after the end', 'this.#socket.destroyed', 'false', 'was lost before: no result'],
  [6, '06-status', 'decodes no percent signs', 'decodeURIComponent', '', 'got the error "Error: a%20b"'],
  [6, '06-status', 'ignores RST_STREAM', 'frame.type === RST_STREAM', 'frame.type < 0', 'RST_STREAM: no result'],
];

/** Copies the programs of the course, one of them wrong. Resolves with the errors of the checks of a chapter. */
async function errorsWith(folder: string, name: string, wrong: string, chapter: number): Promise<string> {
  mkdirSync(folder);
  for (const file of readdirSync(COURSE).filter((each) => each.endsWith('.ts'))) copyProgram(file, folder);
  writeFileSync(`${folder}/${name}.ts`, wrong);
  const program = CHAPTERS.find(({ number }) => number === chapter)?.name;
  const exports = (await import(`${folder}/${program}.ts`)) as object;
  const { Connection } = await import(`${folder}/05-call.ts`);
  // The etcd in memory does not wait for the preface.
  await using server = await observedServer();
  await using listener = await listen(new MemoryEtcd());
  const address = chapter === 1 ? server.address : new URL(listener.endpoint).host;
  const errors: string[] = [];
  for (const check of CHECKS[chapter] ?? [])
    if (check.exercise === undefined)
      await check.run(exports, address, Connection).catch((error) => errors.push(`${error}`));
  return errors.join('\n');
}

test.concurrent.each(CHAPTERS)(
  'a check of chapter $number names the mistake that the chapter describes',
  async ({ number, name, broken }) => {
    const errors = await errorsWith(`${FOLDER}/${number}`, name, broken, number);
    expect(errors).toContain(BROKEN[number - 1]);
  },
);

test.concurrent.each(WRONG_PROGRAMS)(
  'a check of chapter %i names the mistake of a program %s that %s',
  async (chapter, name, mistake, right, wrong, message) => {
    const program = readFileSync(`${COURSE}${name}.ts`, 'utf8');
    const changed = program.replace(right, wrong);
    expect(changed).not.toBe(program);
    expect(await errorsWith(`${FOLDER}/${mistake.replaceAll(' ', '-')}`, name, changed, chapter)).toContain(message);
  },
);

test('every exercise has at least two wrong answers', () => {
  const exercises = Object.entries(CHECKS).flatMap(([chapter, checks]) =>
    checks.flatMap(({ exercise, needs }) => (exercise === undefined ? [] : [`${chapter.padStart(2, '0')} ${needs}`])),
  );
  const planted = Object.entries(MISTAKES).filter(([, mistakes]) => mistakes.length >= 2);
  const known = planted.map(([id]) => id.replace(/-\S+/, ''));
  expect([...new Set(exercises)].filter((exercise) => !known.includes(exercise))).toEqual([]);
});
