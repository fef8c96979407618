import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

// Reads the chapters of the course, and runs their demonstrations.

export const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
export const COURSE = `${ROOT}packages/learn/course/`;

/** Time limit of a demonstration in milliseconds. A demonstration that runs longer is killed. */
const TIME_LIMIT_MS = 150_000;

/** A chapter of the course: a page such as 04-protobuf.md, and a program such as 04-protobuf.ts. */
export interface Chapter {
  readonly number: number;
  /** The name of the chapter's files, without an extension. */
  readonly name: string;
  readonly title: string;
  readonly page: string;
  readonly program: string;
  /** A program that shows what the chapter's program does. */
  readonly demo: string;
  /** The chapter's program with the defect that the section "What goes wrong without it" shows. */
  readonly broken: string;
}

export function readChapters(): Chapter[] {
  const pages = readdirSync(COURSE).filter((file) => /^\d\d-.*\.md$/.test(file));
  return pages.toSorted().map((file) => {
    const name = file.replace('.md', '');
    const page = readFileSync(COURSE + file, 'utf8');
    const program = readFileSync(`${COURSE}${name}.ts`, 'utf8');
    const title = /^# (.+)$/m.exec(page)?.[1] ?? name;
    const [, demo = ''] = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
    const [, diff = ''] = /^```diff\n(.*?)^```$/ms.exec(page) ?? [];
    return { number: Number(name.slice(0, 2)), name, title, page, program, demo, broken: applied(diff, program, name) };
  });
}

/** Applies a diff whose lines begin with `-` or `+`. The program must contain the lines to remove exactly once. */
function applied(diff: string, program: string, name: string): string {
  const lines = (mark: string): string =>
    [...diff.matchAll(/^([-+])(.*\n)/gm)].flatMap(([, sign, line = '']) => (sign === mark ? [line] : [])).join('');
  const parts = program.split(lines('-'));
  if (diff !== '' && parts.length !== 2)
    throw new Error(`${name}.md: the program does not contain the lines of the diff once`);
  return parts.join(lines('+'));
}

/** Returns the page with the program and the outputs of the demonstration in their blocks, which are the first ones. */
export function withBlocks({ page, program }: Chapter, output: string, brokenOutput: string): string {
  const blocks = [`\`\`\`text\n${output}\`\`\``, `\`\`\`text\n${brokenOutput}\`\`\``];
  return page
    .replace(/^```ts\n.*?^```$/ms, () => `\`\`\`ts\n${program}\`\`\``)
    .replace(/^```text\n.*?^```$/gms, (block) => blocks.shift() ?? block);
}

/** Copies a program of the course into a folder. Its imports from this repository lead to the same files. */
export function copyProgram(file: string, folder: string): void {
  const program = readFileSync(COURSE + file, 'utf8').replaceAll(/'((?:\.\.\/){2,}[^']+)'/g, (_, path: string) => {
    const target = relative(folder, join(COURSE, path)).replaceAll(sep, '/');
    return `'${target}'`;
  });
  writeFileSync(join(folder, file), program);
}

/**
 * Runs the demonstration of a chapter in a separate process, and resolves with what it prints. The programs of the
 * other chapters are those of the course.
 */
export async function runDemo(chapter: Chapter, address: string, isBroken = false): Promise<string> {
  const folder = `${ROOT}.cache/learn-${process.pid}-${chapter.number}${isBroken ? '-broken' : ''}`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(COURSE)) if (file.endsWith('.ts')) copyProgram(file, folder);
  if (isBroken) writeFileSync(`${folder}/${chapter.name}.ts`, chapter.broken);
  writeFileSync(`${folder}/demo.ts`, chapter.demo);
  try {
    return await outputOf(`${folder}/demo.ts`, address);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function outputOf(file: string, address: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // A warning contains the number of the process, so the output would differ each time.
    const env = { ...process.env, ADDRESS: address, NO_COLOR: '1', NODE_NO_WARNINGS: '1' };
    const child = spawn(process.execPath, ['--import', 'tsx', file], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => (output += bytes));
    let suffix = '';
    const timer = setTimeout(() => {
      suffix = `(The program did not end within ${TIME_LIMIT_MS / 1_000} s.)\n`;
      child.kill('SIGKILL');
    }, TIME_LIMIT_MS);
    child.once('error', reject);
    child.once('close', () => {
      clearTimeout(timer);
      resolve(output + suffix);
    });
  });
}
