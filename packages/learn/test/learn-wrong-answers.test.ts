import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DemoServer, startServer } from '../../../scripts/demo/server.js';
import { CHECKS } from '../src/learn/checks.js';
import { COURSE, ROOT } from '../src/learn/course.js';

// Runs the checks of the course with wrong answers to its exercises. At least one check must fail.

const SEQUENTIAL = `const values: (string | undefined)[] = [];
  for (const key of keys) {
    const [kv] = (await request(connection, '/etcdserverpb.KV/Range', { 1: key })).messages(2);
    values.push(kv && \`\${kv.bytes(5)}\`);
  }
  return values;`;
const RETHROW = 'if (!(error instanceof EtcdError)) throw error;';
const ONLY_LOCK_LOST = "if (!(error instanceof EtcdError && error.reason === 'LockLost')) throw error;";

/** The name of a chapter, the function, the mistake, the lines of the answer of the course, and the wrong lines. */
const MISTAKES = [
  ['01-preface', 'isHttp2', 'reads fewer bytes than a header', '>= 9 &&', '>= 4 &&'],
  ['01-preface', 'isHttp2', 'ignores the stream', ' && received.readUInt32BE(5) === 0', ''],
  ['01-preface', 'openWithin', 'reads the bytes of the caller', "once('readable'", "once('data'"],
  ['01-preface', 'openWithin', 'leaves the socket open after the timeout', '      socket.destroy();\n', ''],
  ['02-frames', 'roundTripMs', 'stops at any frame', /if \(type === PING && .*\)\)\) /, ''],
  ['02-frames', 'roundTripMs', 'stops at a PING of the server', / && flags === ACK.*'measured'\)\)/, ''],
  ['05-call', 'getAll', 'makes the calls one after the other', /return Promise\.all\([\s\S]*?^ {2}\);/m, SEQUENTIAL],
  ['06-status', 'isOutcomeUnknown', 'takes status 15 for a refusal', '![3, 5, 7, 12]', '[1, 2, 4, 13, 14]'],
  ['06-status', 'read', 'makes one attempt more', 'attempt === attempts', 'attempt > attempts'],
  ['06-status', 'read', 'repeats a call that was refused', ' || error.status !== 14', ''],
  ['07-watch', 'watchPrefix', 'waits after a canceled watch', /^ +if \(response\.int\(4\).*\n/m, ''],
  ['10-lock', 'lockUntil', 'resolves without its key', /^ +if \(!\(await isQueued.*\n/m, ''],
  ['11-etcdwire', 'lockWithin', 'leaves the client open', /^ {4}await etcd\.close\(\);\n/m, ''],
  ['11-etcdwire', 'runUntilDone', 'repeats after each EtcdError', /const reason =[\s\S]*?throw error;/, RETHROW],
  [
    '11-etcdwire',
    'runUntilDone',
    'repeats after no error of the action',
    /const reason =[\s\S]*?throw error;/,
    ONLY_LOCK_LOST,
  ],
] as const;

const FOLDER = `${ROOT}.cache/learn-wrong-${process.pid}`;
let server: DemoServer;
beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  server = await startServer(false, () => {});
});
afterAll(async () => {
  rmSync(FOLDER, { recursive: true, force: true });
  await server.close();
});

test.each(MISTAKES.map((mistake, index) => [...mistake, index] as const))(
  'a check of %s fails if %s %s',
  async (name, needs, _mistake, right, wrong, index) => {
    const answers = readFileSync(`${COURSE}answers/${name}.ts`, 'utf8');
    const changed = answers
      .replace(right, () => wrong)
      .replace('export function getAll', 'export async function getAll');
    expect(changed).not.toBe(answers);
    const file = `${FOLDER}/${index}.ts`;
    writeFileSync(file, changed.replaceAll("'../", "'../../packages/learn/course/"));
    const exports = { ...((await import(`${COURSE}${name}.ts`)) as object), ...((await import(file)) as object) };
    const checks = (CHECKS[Number(name.slice(0, 2))] ?? []).filter((check) => check.needs === needs);
    const address = new URL(server.endpoints[0] ?? '').host;
    const errors: string[] = [];
    for (const check of checks) await check.run(exports, address).catch((error) => errors.push(`${error}`));
    expect(errors.length).toBeGreaterThan(0);
  },
);
