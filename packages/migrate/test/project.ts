import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import type { TypeScript } from '../src/parser.js';
import { run } from '../src/program.js';

/** What the program prints, and its exit code. */
interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `etcdwire-migrate` in this process. */
export function migrate(args: readonly string[], typescript?: TypeScript): Result {
  const printed = { stdout: '', stderr: '' };
  const code = run(
    args,
    { write: (text) => (printed.stdout += text) },
    { write: (text) => (printed.stderr += text) },
    typescript,
  );
  return { code, ...printed };
}

export interface Project {
  readonly folder: string;
  /** Writes a file, runs `etcdwire-migrate` on the project, and returns the new text of the file. */
  migrated(text: string, file?: string): string;
  /** Writes the files, runs `etcdwire-migrate` on the project, and returns the new texts by file. */
  migratedAll<File extends string>(texts: Readonly<Record<File, string>>): Readonly<Record<File, string>>;
}

export function project(typescript?: TypeScript): Project {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'node_modules'));
  const migratedAll = <File extends string>(texts: Readonly<Record<File, string>>): Readonly<Record<File, string>> => {
    const files = Object.keys(texts) as File[];
    for (const file of files) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), texts[file]);
    }
    expect(migrate([folder], typescript)).toMatchObject({ code: 0, stderr: '' });
    const after = files.map((file) => [file, readFileSync(join(folder, file), 'utf8')]);
    return Object.fromEntries(after) as Readonly<Record<File, string>>;
  };
  const migrated = (text: string, file = 'program.ts'): string => migratedAll({ [file]: text })[file] as string;
  return { folder, migrated, migratedAll };
}

/** The beginning of a program with a client. */
export const IMPORT = "import { Etcd3 } from 'etcd3';\n\nconst client = new Etcd3();\n";
