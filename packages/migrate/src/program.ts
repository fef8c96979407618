import { closeSync, openSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import * as ts from 'typescript';
import { escapeControls } from '../../../src/internal.js';
import { rewriteCall } from './calls.js';
import { Names } from './names.js';
import { rewriteConstruction, rewriteOptions } from './objects.js';
import { Parser, type Program, type SourceFile, type TypeScript } from './parser.js';
import { createProgram } from './project.js';
import { Rewriter, type Rewritten } from './rewriter.js';

/** The version in package.json. The program cannot read that file, because the bundle does not contain it. */
const VERSION = '0.1.0';
const HELP = `Usage: etcdwire-migrate [--dry-run] [--json] PATH

Rewrites a program that uses npm's etcd3, so that it uses etcdwire. Comments "// etcdwire: ..." mark the places that you
must change. PATH is a file, or a folder with all source files below it except node_modules.

  --dry-run   prints a diff to stdout and the marks to stderr, and changes no file
  --json      prints the changes as one JSON object
  --version   prints the version
  --help      prints this text
`;
/** The names of files that may use etcd3. */
const SOURCE = /\.[cm]?[jt]sx?$/;
/** Folders that contain no source files of the project. */
const SKIPPED = new Set(['node_modules', 'bower_components']);
/** The exit code after a wrong argument: `EX_USAGE` of `sysexits.h`, as in the command `etcdwire`. */
const USAGE = 64;

interface Sink {
  write(text: string): unknown;
}

interface Flags {
  readonly dryRun: boolean;
  readonly json: boolean;
}

/** A file whose text changes. */
interface Change extends Rewritten {
  readonly file: string;
  readonly before: string;
}

/** A file that the program does not change, and why. */
interface Problem {
  readonly file: string;
  readonly problem: string;
}

/** The lines for stdout and for stderr. */
interface Printed {
  readonly output: readonly string[];
  readonly notes: readonly string[];
}

class UsageError extends Error {}

/** Runs the program and returns its exit code. `typescript` is the package whose parser the program uses. */
export function run(args: readonly string[], stdout: Sink, stderr: Sink, typescript: TypeScript = ts): number {
  try {
    const { values, positionals } = parsedArguments(args);
    if (values.help) stdout.write(HELP);
    else if (values.version) stdout.write(`${VERSION}\n`);
    else {
      const [path] = positionals;
      if (path === undefined || positionals.length > 1)
        throw new UsageError(`got ${positionals.length} paths; allowed: one file or folder`);
      const flags = { dryRun: values['dry-run'] === true, json: values.json === true };
      const { output, notes } = migrate(typescript, path, flags);
      for (const line of output) stdout.write(`${line}\n`);
      for (const line of notes) stderr.write(`${line}\n`);
    }
    return 0;
  } catch (error) {
    stderr.write(`etcdwire-migrate: ${escapeControls(error instanceof Error ? error.message : String(error))}\n`);
    return error instanceof UsageError ? USAGE : 1;
  }
}

function parsedArguments(args: readonly string[]) {
  const flag = { type: 'boolean' } as const;
  const options = { 'dry-run': flag, json: flag, version: flag, help: { ...flag, short: 'h' } } as const;
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(`${(error as Error).message}; run etcdwire-migrate --help`);
  }
}

/** Returns the change in the unified format of `diff -u`, for `patch` and for people. */
function diffOf({ file, before, text }: Change): string {
  const headers = { context: 3, headerOptions: FILE_HEADERS_ONLY };
  return createTwoFilesPatch(`a/${file}`, `b/${file}`, before, text, undefined, undefined, headers);
}

/**
 * Rewrites the files and returns what to print. Computes the new texts of all files before it writes a file, so
 * that an error leaves every file unchanged.
 */
function migrate(typescript: TypeScript, path: string, { dryRun, json }: Flags): Printed {
  const files = filesIn(path);
  const { changes, problems } = changesOf(typescript, path, files);
  if (!dryRun) writeAll(changes);
  if (json) {
    const described = changes.map((change) => ({
      file: change.file,
      rewritten: change.rewritten,
      marks: change.marks.map(({ line, message }) => ({ line, message })),
      ...(dryRun ? { diff: diffOf(change) } : {}),
    }));
    return { output: [JSON.stringify({ dryRun, files: described, unchanged: problems })], notes: [] };
  }
  const lines: string[] = [];
  for (const { file, marks } of changes)
    for (const { line, message } of marks) lines.push(escapeControls(`${file}:${line}: ${message}`));
  for (const { file, problem } of problems) lines.push(escapeControls(`${file}: not changed: ${problem}`));
  const total = (count: (change: Change) => number): number => changes.reduce((sum, each) => sum + count(each), 0);
  const [places, marks] = [total((each) => each.rewritten), total((each) => each.marks.length)];
  lines.push(
    `${changes.length} of ${files.length} files ${dryRun ? 'would be ' : ''}changed: ${places} places rewritten, ${marks} marked`,
  );
  // The diff stands alone on stdout, so that another program may apply it.
  return dryRun
    ? { output: changes.map((change) => diffOf(change).replace(/\n$/, '')), notes: lines }
    : { output: lines, notes: [] };
}

/** Writes the files. Checks first that it may write all of them, so that a forbidden file leaves every file unchanged. */
function writeAll(changes: readonly Change[]): void {
  for (const { file } of changes) {
    try {
      closeSync(openSync(file, 'r+'));
    } catch (error) {
      throw new Error(`${(error as Error).message}; no file was changed`);
    }
  }
  for (const [index, { file, text }] of changes.entries()) {
    try {
      writeFileSync(file, text);
    } catch (error) {
      const before = changes.slice(0, index).map((change) => change.file);
      throw new Error(`${(error as Error).message}; changed before: ${before.join(', ') || 'no file'}`);
    }
  }
}

/** Computes the new texts of the files, if one of them loads etcd3. */
function changesOf(
  typescript: TypeScript,
  path: string,
  files: readonly string[],
): { readonly changes: readonly Change[]; readonly problems: readonly Problem[] } {
  const [changes, problems]: [Change[], Problem[]] = [[], []];
  const parser = new Parser(typescript);
  const program = createProgram(
    typescript,
    path,
    files.map((file) => resolve(file)),
  );
  const roots = files.map((file) => rootOf(program, file));
  const names = new Names(parser, program.getTypeChecker(), roots);
  if (!roots.some((root) => names.loads(root).length > 0)) return { changes, problems };
  for (const [index, root] of roots.entries()) {
    const [file, before] = [files[index] as string, root.text];
    if ((root.parseDiagnostics ?? []).length > 0) {
      if (before.includes('etcd3')) problems.push({ file, problem: 'the parser finds errors in it' });
      continue;
    }
    const rewrites = { call: rewriteCall, construction: rewriteConstruction, options: rewriteOptions };
    const result = new Rewriter(parser, names, root, rewrites).run();
    if (result.text === before) continue;
    if (parser.isCorrect(file, result.text)) changes.push({ ...result, file, before });
    else problems.push({ file, problem: 'the parser would find errors in its new text; please report the file' });
  }
  return { changes, problems };
}

function rootOf(program: Program, file: string): SourceFile {
  const root = program.getSourceFile(resolve(file));
  if (root === undefined) throw new Error(`cannot read ${file}; no file was changed`);
  return root;
}

function filesIn(path: string): readonly string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new UsageError(`${path} does not exist; allowed: a file or a folder`);
  if (!stat.isDirectory()) return [relative('', path) || path];
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const name = entry.name;
    if (entry.isDirectory()) return SKIPPED.has(name) || name.startsWith('.') ? [] : filesIn(join(path, name));
    return entry.isFile() && SOURCE.test(name) ? [relative('', join(path, name)) || name] : [];
  });
}
