import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type DemoServer, startServer } from '../../../scripts/demo/server.js';
import { blankOf } from './learn/blank.js';
import type { Result } from './learn/check-process.js';
import { CHECKS } from './learn/checks.js';
import { type Chapter, COURSE, copyProgram, ROOT, readChapters, runDemo, withBlocks } from './learn/course.js';
import { HINTS } from './learn/hints.js';
import { NotLoadedError, resultsOf } from './learn/run-checks.js';

// Runs the course: checks the reader's programs, and shows what the programs of the course do.

const USAGE = `npm run learn -- [CHAPTER] [--show | --broken | --answers | --blank | --hint N] [--folder DIR] [--memory]

Without options, checks your program of the chapter, such as learn/04-protobuf.ts, and your answers to the exercises,
which are further exports of that file. Copies the program of the course if you have none yet.

  --show        runs the example of the chapter with the program of the course
  --broken      runs the same example with the defect that the chapter describes
  --answers     checks the program and the answers of the course instead of yours
  --blank       writes the program of the chapter without its code, so that you write it
  --hint N      prints a hint for exercise N; --hint N.2 prints the next one
  --folder DIR  the folder of your programs (default: learn)
  --memory      uses an etcd in memory instead of a real etcd

npm run learn -- --serve starts an etcd for your own programs, prints its address, and runs until Ctrl-C.
`;

/** Files of the course that the later chapters need, each with the first of these chapters. */
const HELPERS = [
  [11, 'etcdwire.ts'],
  [12, 'fault-proxy.ts'],
] as const;

const OPTIONS = {
  allowPositionals: true,
  options: {
    show: { type: 'boolean', default: false },
    broken: { type: 'boolean', default: false },
    answers: { type: 'boolean', default: false },
    folder: { type: 'string', default: 'learn' },
    memory: { type: 'boolean', default: false },
    serve: { type: 'boolean', default: false },
    blank: { type: 'boolean', default: false },
    hint: { type: 'string' },
    'write-pages': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
} as const;

const { values, positionals } = readArguments();

function readArguments(): ReturnType<typeof parseArgs<typeof OPTIONS>> {
  try {
    return parseArgs(OPTIONS);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${USAGE}`);
    process.exit(2);
  }
}

async function main(): Promise<number> {
  const chapters = readChapters();
  if (values['write-pages']) return writePages(chapters);
  if (values.serve) return serve();
  const list = chapters.map(({ number, title }) => `  ${`${number}`.padStart(2)}  ${title.replace(/^\d+\. /, '')}\n`);
  const chapter = chapters.find(({ number }) => number === Number(positionals[0]));
  if (values.help || positionals.length === 0) {
    process.stdout.write(`${USAGE}\nChapters, in packages/learn/course:\n\n${list.join('')}`);
    return 0;
  }
  if (chapter === undefined) {
    process.stderr.write(`chapter: got "${positionals[0]}"; allowed:\n${list.join('')}`);
    return 2;
  }
  if (values.hint !== undefined) return hint(chapter, values.hint);
  if (values.blank) return blank(chapter, chapters);
  const server = await start();
  const address = new URL(server.endpoints[0] ?? '').host;
  try {
    if (!values.show && !values.broken) return await check(chapter, chapters, address, server.description);
    process.stdout.write(await runDemo(chapter, address, values.broken));
    return 0;
  } finally {
    await server.close();
  }
}

function start(): Promise<DemoServer> {
  return startServer(values.memory, (reason) =>
    process.stderr.write(`${reason}\nThe course uses an etcd in memory instead.\n`),
  );
}

/** Prints a hint. `which` is the number of the exercise, with the number of the hint after a dot: `2` or `2.2`. */
function hint(chapter: Chapter, which: string): number {
  const [exercise = '', number = '1'] = which.split('.');
  const hints = HINTS[chapter.number]?.[Number(exercise) - 1] ?? [];
  const text = hints[Number(number) - 1];
  if (text === undefined) {
    process.stderr.write(
      `--hint: got "${which}"; allowed: the exercises 1 to 3, such as 2, and their hints, such as 2.2\n`,
    );
    return 2;
  }
  const next =
    Number(number) < hints.length
      ? `Next hint: --hint ${exercise}.${Number(number) + 1}`
      : `There are no more hints. The answer is in packages/learn/course/answers/${chapter.name}.ts`;
  console.log(`${text}\n\n${next}`);
  return 0;
}

/** Writes the program of a chapter without its code, and copies the programs of the chapters before it. */
function blank(chapter: Chapter, chapters: readonly Chapter[]): number {
  const folder = resolve(ROOT, values.folder);
  const file = join(folder, `${chapter.name}.ts`);
  if (existsSync(file)) {
    const name = relative(ROOT, file);
    process.stderr.write(`${name} exists; move it away or delete it, or name another folder with --folder\n`);
    return 1;
  }
  mkdirSync(folder, { recursive: true });
  copyProgram(`${chapter.name}.ts`, folder);
  writeFileSync(file, blankOf(readFileSync(file, 'utf8')));
  const next = `write the code at each TO DO, and check it with: npm run learn -- ${chapter.number}`;
  console.log(`wrote ${relative(ROOT, file)}; ${next}`);
  copyMissing(chapters.slice(0, chapter.number), folder);
  return 0;
}

async function serve(): Promise<number> {
  const server = await start();
  console.log(`${server.description} runs until Ctrl-C. Start your programs with this variable:`);
  console.log(`ADDRESS=${new URL(server.endpoints[0] ?? '').host}`);
  await new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve));
  await server.close();
  return 0;
}

async function check(chapter: Chapter, chapters: readonly Chapter[], address: string, server: string): Promise<number> {
  const folder = resolve(ROOT, values.folder);
  if (!values.answers) copyMissing(chapters.slice(0, chapter.number), folder);
  const file = `${chapter.name}.ts`;
  const files = values.answers ? [join(COURSE, file), join(COURSE, 'answers', file)] : [join(folder, file)];
  console.log(`Chapter ${chapter.title}\n${files.map((each) => relative(ROOT, each)).join(' and ')}, with ${server}\n`);
  const checks = CHECKS[chapter.number] ?? [];
  const counts = { passed: 0, failed: 0, 'to do': 0 };
  let isStuck = false;
  try {
    for await (const { index, status, error } of resultsOf(chapter.number, address, files)) {
      counts[status] += 1;
      const { exercise, needs, what } = checks[index] as (typeof checks)[number];
      console.log(`  ${mark(status)}  ${exercise === undefined ? '' : `exercise ${exercise}: `}${needs} ${what}`);
      isStuck ||= exercise !== undefined && status === 'failed';
      if (process.stdout.errored !== null) break;
      if (error !== undefined) console.log(`${error.trimEnd().replaceAll(/^/gm, ' '.repeat(10))}\n`);
    }
  } catch (error) {
    if (!(error instanceof NotLoadedError)) throw error;
    console.log(error.message);
  }
  if (isStuck) console.log(`\nnpm run learn -- ${chapter.number} --hint N prints a hint for exercise N.`);
  const todo = counts['to do'] === 0 ? '' : `, ${counts['to do']} to do`;
  console.log(`\n${counts.passed} of ${checks.length} checks passed${todo}`);
  return counts.passed + counts['to do'] < checks.length ? 1 : 0;
}

function mark(status: Result['status']): string {
  const colors = { passed: 32, failed: 31, 'to do': 33 };
  const text = status.padEnd(6);
  return process.stdout.isTTY && process.stdout.hasColors() ? `\x1b[${colors[status]}m${text}\x1b[39m` : text;
}

/** Copies the programs of the course that the reader does not have yet, because the chapters build on each other. */
function copyMissing(chapters: readonly Chapter[], folder: string): void {
  mkdirSync(folder, { recursive: true });
  const others = ['cut-proxy.ts', ...HELPERS.filter(([first]) => chapters.length >= first).map(([, file]) => file)];
  for (const file of [...chapters.map(({ name }) => `${name}.ts`), ...others]) {
    if (existsSync(join(folder, file))) continue;
    copyProgram(file, folder);
    console.log(`copied ${relative(ROOT, join(COURSE, file))} to ${relative(ROOT, join(folder, file))}`);
  }
}

/** Writes the programs and the outputs of the examples into the pages. */
async function writePages(chapters: readonly Chapter[]): Promise<number> {
  for (const chapter of chapters) {
    const outputs: string[] = [];
    for (const isBroken of [false, true]) {
      // Each example gets a new server, so that the revisions are the same each time.
      const server = await startServer(false, () => {});
      outputs.push(await runDemo(chapter, new URL(server.endpoints[0] ?? '').host, isBroken));
      await server.close();
    }
    const [output = '', brokenOutput = ''] = outputs;
    writeFileSync(`${COURSE}${chapter.name}.md`, withBlocks(chapter, output, brokenOutput));
    console.log(`packages/learn/course/${chapter.name}.md`);
  }
  return 0;
}

// A command such as `head` closes the pipe. A write to it then fails, which would end this process before its child.
process.stdout.on('error', () => {});
process.exitCode = await main();
