import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { Argument, type Command } from 'commander';
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { type Context, contextOf } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { rewriteCall } from '../migrate/calls.js';
import { rewriteConstruction } from '../migrate/objects.js';
import { Parser } from '../migrate/parser.js';
import { Rewriter, type Rewritten } from '../migrate/rewriter.js';
import { escapeControls } from '../output.js';

/** The names of files that may load etcd3. */
const SOURCE = /\.[cm]?[jt]sx?$/;
/** Folders that contain no source files of the project. */
const SKIPPED = new Set(['node_modules', 'bower_components']);

interface MigrateFlags {
  readonly dryRun?: true;
}

/** A file that loads etcd3, with its new text. */
interface Change extends Rewritten {
  readonly file: string;
  readonly before: string;
}

/** A file that the program does not change, and why. */
interface Problem {
  readonly file: string;
  readonly problem: string;
}

export function addMigrateCommand(program: Command, io: Io): void {
  program
    .command('migrate-etcd3')
    .addArgument(new Argument('<path>', 'file, or folder with all files below it except node_modules'))
    .option('--dry-run', 'print a diff, and change no file')
    .description(
      'rewrite a program that uses npm\'s etcd3; comments "// etcdwire: …" mark the places that you must change',
    )
    .action((path: string, flags: MigrateFlags, command: Command) => migrate(contextOf(io, command), path, flags));
}

/** Returns the change in the unified format of `diff -u`, for `patch` and for people. */
function diffOf({ file, before, text }: Change): string {
  const headers = { context: 3, headerOptions: FILE_HEADERS_ONLY };
  return createTwoFilesPatch(`a/${file}`, `b/${file}`, before, text, undefined, undefined, headers);
}

/** Computes the new texts of all files before it writes a file, so that an error leaves every file as it was. */
function migrate({ out }: Context, path: string, { dryRun }: MigrateFlags): void {
  const files = filesIn(path);
  const parser = Parser.load(statSync(path).isDirectory() ? path : dirname(path));
  const changes: Change[] = [];
  const problems: Problem[] = [];
  for (const file of files) {
    const before = readFileSync(file, 'utf8');
    if (!before.includes('etcd3')) continue;
    const result = rewritten(parser, file, before);
    if (result !== undefined && 'problem' in result) problems.push({ file, problem: result.problem });
    else if (result !== undefined && result.text !== before) changes.push({ ...result, file, before });
  }
  if (dryRun === undefined) for (const { file, text } of changes) writeFileSync(file, text);
  if (out.format === 'json') {
    const described = changes.map((change) => ({
      file: change.file,
      rewritten: change.rewritten,
      marks: change.marks.map(({ line, message }) => ({ line, message })),
      ...(dryRun ? { diff: diffOf(change) } : {}),
    }));
    out.json({ dryRun: dryRun === true, files: described, unchanged: problems.map((each) => ({ ...each })) });
    return;
  }
  if (dryRun) for (const change of changes) out.bytes(Buffer.from(diffOf(change)));
  for (const { file, marks } of changes)
    for (const { line, message } of marks) out.line(escapeControls(`${file}:${line}: ${message}`));
  for (const { file, problem } of problems) out.line(escapeControls(`${file}: not changed: ${problem}`));
  const total = (count: (change: Change) => number): number => changes.reduce((sum, each) => sum + count(each), 0);
  const [places, marks] = [total((each) => each.rewritten), total((each) => each.marks.length)];
  out.line(
    `${changes.length} of ${files.length} files ${dryRun ? 'would be ' : ''}changed: ${places} places rewritten, ${marks} marked`,
  );
}

/** Returns the new text, or undefined if the file does not load etcd3. */
function rewritten(parser: Parser, file: string, before: string): Rewritten | { readonly problem: string } | undefined {
  const parsed = parser.parse(file, before);
  if (parsed.isWrong) return { problem: 'the parser finds errors in it' };
  const result = new Rewriter(parser, parsed, { call: rewriteCall, construction: rewriteConstruction }).run();
  if (result === undefined || !parser.parse(file, result.text).isWrong) return result;
  return { problem: 'the parser would find errors in its new text; please report the file' };
}

/** @throws CliError if the path does not exist. */
function filesIn(path: string): readonly string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new CliError(ExitCode.USAGE, `${path} does not exist; allowed: a file or a folder`);
  if (!stat.isDirectory()) return [relative('', path) || path];
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const name = entry.name;
    if (entry.isDirectory()) return SKIPPED.has(name) || name.startsWith('.') ? [] : filesIn(join(path, name));
    return entry.isFile() && SOURCE.test(name) ? [relative('', join(path, name)) || name] : [];
  });
}
