import { readdirSync, readFileSync, rmSync } from 'node:fs';
import type { Profiler } from 'node:inspector';
import { SourceMap } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compiledWhole } from '../../test/support/compiled.js';

// Measures which lines of src/ the simulated histories execute.

/** The folders whose lines are counted. `npm run test:simulation -- --coverage` prints a row for each. */
const FOLDERS = [
  'rpc',
  'client/watch',
  'client/lease',
  'client/kv',
  'client/services',
  'locks',
  'extras/ranges',
  'extras/keys',
  'extras/writes',
  'extras/recipes',
  'base',
  'wire/protobuf',
  'wire/http2',
] as const;
/** The folders of which the histories must execute at least `REQUIRED_PERCENT` of the lines. */
const REQUIRED_FOLDERS: ReadonlySet<string> = new Set([
  'rpc',
  'client/watch',
  'client/lease',
  'locks',
  'extras/ranges',
  'extras/recipes',
]);
const REQUIRED_PERCENT = 85;

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const WORKER = join(root, 'scripts/simulate/worker.ts');

/** The functions of one thread, with the number of times that each of their parts has run. */
export type Counted = readonly Profiler.FunctionCoverage[];

/** The lines and functions of one folder. */
interface Folder {
  lines: number;
  covered: number;
  /** The functions that have never run, as `file:line name`. */
  readonly missed: string[];
}

/** The simulation's worker together with all files of the measured folders, in one file without any code left out. */
export class MeasuredProgram {
  /** The URL of the program, as `covered-worker.ts` imports it. */
  readonly url: string;
  readonly #path: string;
  readonly #code: string;
  readonly #map: SourceMap;
  /** Whether each character has been executed in at least one thread. */
  readonly #executed: Uint8Array;
  /** The functions that have run in at least one thread, by the offset of their first character. */
  readonly #ran = new Set<number>();
  readonly #functions = new Map<number, string>();

  constructor() {
    const files = FOLDERS.flatMap((folder) => filesIn(join(root, 'src', folder)));
    const imports = [WORKER, ...files].map((file) => `import ${JSON.stringify(file)};`);
    const { file, map } = compiledWhole(imports.join('\n'), 'simulation-coverage');
    this.#path = file;
    this.url = pathToFileURL(file).href;
    this.#code = readFileSync(file, 'utf8');
    this.#map = new SourceMap(JSON.parse(readFileSync(map, 'utf8')));
    rmSync(map);
    this.#executed = new Uint8Array(this.#code.length);
  }

  /** Removes the compiled file. */
  remove(): void {
    rmSync(this.#path);
  }

  /** Adds what one thread has executed. */
  add(functions: Counted): void {
    const executed = new Uint8Array(this.#code.length);
    for (const { functionName, ranges } of functions)
      for (const [index, { startOffset, endOffset, count }] of ranges.entries()) {
        executed.fill(count > 0 ? 1 : 0, startOffset, endOffset);
        if (index > 0) continue;
        this.#functions.set(startOffset, functionName);
        if (count > 0) this.#ran.add(startOffset);
      }
    for (const [offset, isExecuted] of executed.entries()) if (isExecuted === 1) this.#executed[offset] = 1;
  }

  /**
   * Prints a row for each folder, and the functions that have never run. Returns whether the coverage is sufficient.
   */
  print(): boolean {
    const folders = this.#folders();
    let isSufficient = true;
    console.log('\n| folder | lines | executed | required |\n|---|---|---|---|');
    for (const [name, { lines, covered }] of folders) {
      const percent = (100 * covered) / lines;
      const isRequired = REQUIRED_FOLDERS.has(name);
      if (isRequired && percent < REQUIRED_PERCENT) isSufficient = false;
      console.log(`| ${name} | ${lines} | ${percent.toFixed(1)} % | ${isRequired ? `${REQUIRED_PERCENT} %` : ''} |`);
    }
    for (const [name, { missed }] of folders) {
      if (missed.length === 0) continue;
      console.log(`\nfunctions of ${name} that no history calls:`);
      for (const text of missed) console.log(`  ${text}`);
    }
    return isSufficient;
  }

  #folders(): ReadonlyMap<string, Folder> {
    const folders = new Map<string, Folder>(FOLDERS.map((name) => [name, { lines: 0, covered: 0, missed: [] }]));
    /** Whether each line of the source has been executed, by `file:line`. */
    const lines = new Map<string, { readonly folder: Folder; isExecuted: boolean }>();
    let offset = 0;
    for (const [index, text] of this.#code.split('\n').entries()) {
      // Skip lines that only close blocks.
      const column = /\w/.test(text) ? text.search(/\S/) : -1;
      const source = column < 0 ? undefined : this.#sourceOf(index, column, folders);
      if (source !== undefined) {
        const line = lines.get(source.text) ?? { folder: source.folder, isExecuted: false };
        lines.set(source.text, line);
        line.isExecuted ||= this.#executed[offset + column] === 1;
      }
      const end = offset + text.length;
      for (let at = offset; at < end; at += 1) {
        const name = this.#functions.get(at);
        if (name === undefined || this.#ran.has(at)) continue;
        const place = this.#sourceOf(index, at - offset, folders);
        if (place !== undefined && name !== '') place.folder.missed.push(`${place.text} ${name}`);
      }
      offset = end + 1;
    }
    for (const { folder, isExecuted } of lines.values()) {
      folder.lines += 1;
      if (isExecuted) folder.covered += 1;
    }
    return folders;
  }

  #sourceOf(
    line: number,
    column: number,
    folders: ReadonlyMap<string, Folder>,
  ): { readonly text: string; readonly folder: Folder } | undefined {
    const entry = this.#map.findEntry(line, column);
    if (!('originalSource' in entry)) return undefined;
    const path = relative(root, join(dirname(this.#path), entry.originalSource));
    const name = FOLDERS.find((folder) => path.startsWith(`src/${folder}/`));
    const folder = name && folders.get(name);
    return folder && { text: `${path}:${entry.originalLine + 1}`, folder };
  }
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}
