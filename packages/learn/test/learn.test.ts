import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type DemoServer, startServer } from '../../../scripts/demo/server.js';
import { DIAGRAMS, draw } from '../src/diagrams.js';
import { blankOf } from '../src/learn/blank.js';
import { CHECKS } from '../src/learn/checks.js';
import { COURSE, copyProgram, ROOT, readChapters, runDemo, withBlocks } from '../src/learn/course.js';
import { HINTS } from '../src/learn/hints.js';
import { addressOf } from '../src/playground/address.js';

// Runs the programs of the course, their examples, and the answers to the exercises.

const CHAPTERS = readChapters();
const MAX_LINES = 60;
const MAX_LINES_OF_ALL = 420;
/** The last chapter whose program uses no library. The later programs use etcdwire. */
const LAST_WITHOUT_LIBRARY = 10;
/** The chapters whose examples print something else with the etcd in memory. */
const WITH_REAL_ETCD = new Set([1, 6]);

test('the course has ten programs without a library, of at most 60 lines and fewer than 420 lines in all', () => {
  const programs = CHAPTERS.filter(({ number }) => number <= LAST_WITHOUT_LIBRARY);
  const lines = programs.map(({ program }) => program.trimEnd().split('\n').length);
  expect(lines.length).toBe(LAST_WITHOUT_LIBRARY);
  expect(Math.max(...lines)).toBeLessThanOrEqual(MAX_LINES);
  expect(lines.reduce((sum, each) => sum + each)).toBeLessThan(MAX_LINES_OF_ALL);
});

test.each(CHAPTERS)(
  'chapter $number has three exercises, and imports only earlier chapters and node:net or etcdwire',
  (chapter) => {
    const exercises = chapter.page.split('## Exercises')[1] ?? '';
    expect([...exercises.matchAll(/^\d\. /gm)].length).toBe(3);
    expect(new Set((CHECKS[chapter.number] ?? []).map(({ exercise }) => exercise))).toEqual(
      new Set([undefined, 1, 2, 3]),
    );
    const library = chapter.number <= LAST_WITHOUT_LIBRARY ? 'node:net' : './etcdwire.js';
    for (const [, imported = ''] of chapter.program.matchAll(/from '(.*)'/g))
      if (imported !== library) expect(imported < `./${chapter.name}`).toBe(true);
  },
);

// The chapters run concurrently, because their examples mostly wait for a server or for a time limit.
test.concurrent.each(CHAPTERS)(
  'the page of chapter $number contains its program, and what its examples print',
  async (chapter) => {
    const outputOf = async (isBroken: boolean): Promise<string> => {
      const server = await startServer(!WITH_REAL_ETCD.has(chapter.number), () => {});
      try {
        return await runDemo(chapter, new URL(server.endpoints[0] ?? '').host, isBroken);
      } finally {
        await server.close();
      }
    };
    const [output, brokenOutput] = await Promise.all([outputOf(false), outputOf(true)]);
    expect(withBlocks(chapter, output, brokenOutput)).toBe(chapter.page);
  },
);

describe('with a real etcd', () => {
  let server: DemoServer;
  beforeAll(async () => {
    server = await startServer(false, () => {});
  });
  afterAll(() => server.close());

  test.each(CHAPTERS.flatMap(({ number, name }) => (CHECKS[number] ?? []).map((check) => ({ name, ...check }))))(
    '$name: $needs $what',
    async ({ name, run }) => {
      const program = (await import(`${COURSE}${name}.ts`)) as object;
      const answers = (await import(`${COURSE}answers/${name}.ts`)) as object;
      await run({ ...program, ...answers }, new URL(server.endpoints[0] ?? '').host);
    },
  );
});

test.each(readdirSync(DIAGRAMS).filter((file) => file.endsWith('.txt')))(
  'the SVG file beside course/diagrams/%s shows what npm run docs:diagrams draws from the text file',
  (file) => {
    const svg = readFileSync(`${DIAGRAMS}${file.replace('.txt', '.svg')}`, 'utf8');
    expect(svg).toBe(draw(readFileSync(DIAGRAMS + file, 'utf8')));
  },
);

test.each(CHAPTERS)('chapter $number links to states of the playground that exist', ({ page }) => {
  const fragments = [...page.matchAll(/playground\.html(#[^)]*)/g)].map(([, fragment = '']) => fragment);
  expect(fragments.length).toBeGreaterThan(0);
  expect(fragments.filter((fragment) => addressOf(fragment) === undefined)).toEqual([]);
});

test.each(CHAPTERS)('chapter $number has two hints for each exercise', ({ number }) => {
  expect(HINTS[number]?.map((hints) => hints.length)).toEqual([2, 2, 2]);
});

test('the programs without their code export what the programs export, and throw TO DO', async () => {
  const folder = `${ROOT}.cache/learn-blank-${process.pid}`;
  mkdirSync(folder, { recursive: true });
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const file of ['etcdwire.ts', 'cut-proxy.ts']) copyProgram(file, folder);
  for (const { name } of CHAPTERS) {
    copyProgram(`${name}.ts`, folder);
    writeFileSync(join(folder, `${name}.ts`), blankOf(readFileSync(join(folder, `${name}.ts`), 'utf8')));
  }
  for (const { name } of CHAPTERS) {
    const blank = (await import(join(folder, `${name}.ts`))) as Record<string, unknown>;
    const program = (await import(`${COURSE}${name}.ts`)) as object;
    expect(Object.keys(blank)).toEqual(Object.keys(program));
    const functions = Object.entries(blank).filter(([, value]) => typeof value === 'function');
    const written = functions.filter(([, value]) => !String(value).includes('TO DO: write'));
    expect(written.map(([exported]) => exported)).toEqual(name === '06-status' ? ['CallError'] : []);
  }
});

function learn(...args: readonly string[]): { readonly status: number | null; readonly stdout: string } {
  return spawnSync(process.execPath, ['--import', 'tsx', 'packages/learn/src/learn.ts', ...args], {
    cwd: ROOT,
    encoding: 'utf8',
  });
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-learn-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('npm run learn copies missing programs, and counts the checks that are still to do', () => {
  const folder = newFolder();
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(0);
  expect(existsSync(join(folder, '01-preface.ts'))).toBe(true);
  expect(stdout).toContain('2 of 5 checks passed, 3 to do');
});

test('npm run learn --blank writes a program whose checks are to do, and replaces no program', () => {
  const folder = newFolder();
  expect(learn('4', '--blank', '--folder', folder).stdout).toContain('npm run learn -- 4');
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(0);
  expect(stdout).toMatch(/to do {3}encode .*\n +TO DO: write encode\n/);
  expect(stdout).toContain('0 of 5 checks passed, 5 to do');
  expect(learn('4', '--blank', '--folder', folder)).toMatchObject({ status: 1, stdout: '' });
});

test('npm run learn --hint prints one hint, and says how to get the next one or the answer', () => {
  const [first = '', second = ''] = HINTS[4]?.[1] ?? [];
  expect(learn('4', '--hint', '2').stdout).toBe(`${first}\n\nNext hint: --hint 2.2\n`);
  expect(learn('4', '--hint', '2.2').stdout).toContain(`${second}\n\nThere are no more hints. The answer is in`);
  expect(learn('4', '--hint', '4').status).toBe(2);
});

test('npm run learn copies the program of chapter 11 so that it finds etcdwire', () => {
  const folder = newFolder();
  const { status, stdout } = learn('11', '--memory', '--folder', folder);
  expect(status).toBe(0);
  expect(stdout).toContain('4 of 10 checks passed, 6 to do');
});

test('npm run learn copies the program of chapter 12, and the proxies that its exercises need', () => {
  const folder = newFolder();
  const { status, stdout } = learn('12', '--memory', '--folder', folder);
  expect(status).toBe(0);
  expect(existsSync(join(folder, 'fault-proxy.ts'))).toBe(true);
  expect(stdout).toContain('3 of 9 checks passed, 6 to do');
});

test('npm run learn names the check that a wrong program fails, and shows what the program did', () => {
  const folder = newFolder();
  const chapter = CHAPTERS.find(({ number }) => number === 4);
  writeFileSync(join(folder, '04-protobuf.ts'), chapter?.broken ?? '');
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(1);
  expect(stdout).toContain('failed  encode encodes integers');
});

test('npm run learn shows the input and the line of the program when the program throws an error', () => {
  const folder = newFolder();
  const program = readFileSync(`${COURSE}04-protobuf.ts`, 'utf8');
  writeFileSync(join(folder, '04-protobuf.ts'), program.replace('BigInt(value))', 'BigInt(undefined as never))'));
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(1);
  expect(stdout).toMatch(/encode\({ 1: 600, 2: 7n }\): the function threw "TypeError: .*\n +at .*04-protobuf\.ts:\d+/);
});

test('npm run learn shows the error of the compiler when a program cannot be loaded', () => {
  const folder = newFolder();
  writeFileSync(join(folder, '04-protobuf.ts'), 'export const encode = (;\n');
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(1);
  expect(stdout).toMatch(/could not be loaded, so no check ran:\n.*\n?.*04-protobuf\.ts:1:\d+/);
  expect(stdout).toContain('0 of 5 checks passed');
  expect(stdout).not.toContain('ended its process');
});

test('npm run learn says when a program ends its process while it is loaded', () => {
  const folder = newFolder();
  const program = readFileSync(`${COURSE}04-protobuf.ts`, 'utf8');
  writeFileSync(join(folder, '04-protobuf.ts'), `${program}\nprocess.exit(0);\n`);
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(1);
  expect(stdout).toContain('could not be loaded, so no check ran: it has ended its process');
});

test('npm run learn names the calls that block the process or end it, and runs the checks after them', () => {
  const folder = newFolder();
  const program = readFileSync(`${COURSE}04-protobuf.ts`, 'utf8');
  const answers = `
    export const list = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    export const zigzag = () => process.exit();
    export const merge = () => {
      queueMicrotask(() => { throw new Error('late'); });
      return new Promise(() => {});
    };`;
  writeFileSync(join(folder, '04-protobuf.ts'), program + answers);
  const { status, stdout } = learn('4', '--memory', '--folder', folder);
  expect(status).toBe(1);
  expect(stdout).toMatch(
    /exercise 1: .*\n +list of 08d8.*: the program has blocked the process for 15 s; look for a loop/,
  );
  expect(stdout).toMatch(/exercise 2: .*\n +zigzag\(0n\): the program has ended its process/);
  expect(stdout).toMatch(/exercise 3: .*\n +an error that the program does not catch: late/);
  expect(stdout).toContain('npm run learn -- 4 --hint N prints a hint');
  expect(stdout).toContain('2 of 5 checks passed');
});

test('npm run learn reports a function that is to do, and not the error of a connection that it has left open', () => {
  const folder = newFolder();
  learn('2', '--blank', '--folder', folder);
  const file = join(folder, '02-frames.ts');
  const answer = `
    import { open } from './01-preface.js';
    export async function roundTripMs(address: string) {
      for await (const frame of readFrames(open(address))) return frame;
    }`;
  writeFileSync(file, readFileSync(file, 'utf8') + answer);
  const { status, stdout } = learn('2', '--memory', '--folder', folder);
  expect(status).toBe(0);
  expect(stdout).toMatch(/exercise 3: .* 200 ms\n +TO DO: write readFrames/);
});

test('npm run learn ends its checks without an error when nothing reads its output any longer', async () => {
  const args = ['--import', 'tsx', 'packages/learn/src/learn.ts', '4', '--answers', '--memory'];
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.once('data', () => child.stdout.destroy());
  let errors = '';
  child.stderr.on('data', (bytes: Buffer) => (errors += bytes));
  await once(child, 'close');
  expect(errors).toBe('');
});

test('npm run learn lists the chapters, and refuses a chapter that does not exist', () => {
  expect(learn().stdout).toContain(' 10  The lock');
  expect(learn(`${CHAPTERS.length + 1}`).status).toBe(2);
});
