import { readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import type { Plugin } from 'esbuild';
import { declarationsOf } from '../entry-points.js';
import { doorsOf, ROOMS } from '../rooms.js';

/** Matches an import or export of names from another file of src/. */
const FROM_FILE = /^(import|export) (type )?\{([^}]*)\} from '(\.[^']+)\.js';/gm;

/**
 * An esbuild plugin that replaces imports from the doors of rooms with imports from the files that declare the names.
 * `src` is the folder src/. A door refers to all files of its room, so modules that import from doors could not be
 * divided into files of dist/.
 */
export function throughDoors(src: string): Plugin {
  const doors = new Map<string, ReadonlyMap<string, string>>();
  for (const path of ROOMS.flatMap(doorsOf).filter((each) => each.endsWith('.ts')))
    doors.set(join(src, path), declarationsOf(join(src, path)));
  return {
    name: 'through doors',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (!path.startsWith(src + sep)) return undefined;
        const code = readFileSync(path, 'utf8');
        const contents = code.replaceAll(FROM_FILE, (statement, kind, type, list, target) => {
          const declared = doors.get(join(dirname(path), `${target}.ts`));
          if (declared === undefined) return statement;
          const statements = type === undefined ? values(list).map((name) => direct(path, kind, name, declared)) : [];
          // The line numbers of source maps must not change.
          return statements.join(' ') + '\n'.repeat(statement.split('\n').length - 1);
        });
        return { contents, loader: 'ts' };
      });
    },
  };
}

/** Returns the names in a list of an import statement, without those of types. */
function values(list: string): string[] {
  return list
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && !name.startsWith('type '));
}

function direct(path: string, kind: string, name: string, declared: ReadonlyMap<string, string>): string {
  const file = declared.get(name.split(' as ')[0] as string);
  if (file === undefined) throw new Error(`${path} imports ${name}, which its door does not export`);
  const specifier = relative(dirname(path), file).replaceAll(sep, '/').replace(/\.ts$/, '.js');
  return `${kind} { ${name} } from '${specifier.startsWith('.') ? specifier : `./${specifier}`}';`;
}
