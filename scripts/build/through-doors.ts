import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import type { Plugin } from 'esbuild';
import { type Declaration, declarationsOf } from '../entry-points.js';
import { doorsOf, PLACES } from '../rooms.js';

/** Matches an import or export of names from another file. */
const FROM_FILE = /^(import|export) (type )?\{([^}]*)\} from '(\.[^']+)\.js';/gm;

/**
 * An esbuild plugin that replaces imports from the doors of rooms and packages, and from src/internal.ts, with imports
 * from the files that declare the names. `root` is the folder of the repository, or of a copy without packages. A door
 * refers to all files of its room, so modules that import from doors could not be divided into files of dist/.
 */
export function throughDoors(root: string): Plugin {
  const doors = new Map<string, ReadonlyMap<string, Declaration>>();
  const places = PLACES.filter(({ path, isPackage }) => !isPackage || existsSync(join(root, path)));
  for (const path of [...places.flatMap(doorsOf), 'src/internal.ts'].filter((each) => each.endsWith('.ts')))
    doors.set(join(root, path), declarationsOf(join(root, path)));
  const folders = ['src', 'packages'].map((folder) => join(root, folder) + sep);
  return {
    name: 'through doors',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (!folders.some((folder) => path.startsWith(folder))) return undefined;
        const code = readFileSync(path, 'utf8');
        const contents = code.replaceAll(FROM_FILE, (statement, kind, type, list, target) => {
          const declared = doors.get(join(dirname(path), `${target}.ts`));
          if (declared === undefined) return statement;
          return type === undefined
            ? values(list)
                .map((name) => direct(path, kind, name, declared))
                .join(' ')
            : '';
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

function direct(path: string, kind: string, item: string, declared: ReadonlyMap<string, Declaration>): string {
  const [imported = '', local = imported] = item.split(' as ');
  const found = declared.get(imported);
  if (found === undefined) throw new Error(`${path} imports ${imported}, which its door does not export`);
  const specifier = relative(dirname(path), found.file).replaceAll(sep, '/').replace(/\.ts$/, '.js');
  return `${kind} { ${found.name} as ${local} } from '${specifier.startsWith('.') ? specifier : `./${specifier}`}';`;
}
