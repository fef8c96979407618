import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { PACKAGES, ROOMS } from '../../scripts/rooms.js';

// Three sections of src/README.md, the walks, list in numbered steps the functions that a call or event passes through. A
// link in such a step names a function or method and leads to its file, such as [`Http2Stream.take`](wire/http2/stream.ts).
// So do links in the tables of the page, such as [`CallOptions`](rpc/rpc.ts).

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HOUSE = readFileSync(join(ROOT, 'src/README.md'), 'utf8');
const HOPS = [...HOUSE.matchAll(/\[`([\w.#]+)`\]\((\w[^)]+\.ts)\)/g)].map(([, name = '', file = '']) => ({
  name,
  file: `src/${file}`,
}));
const WALKS = ['A put', 'A watch event', 'A contended lock'];

/** Whether the source defines a function, class, constant, method or accessor of this name. */
function defines(source: string, name: string): boolean {
  const plain = name.replace('#', '');
  const declared = new RegExp(`\\b(?:class|function\\*?|const|interface|type) ${plain}\\b`);
  const member = new RegExp(
    `^ +(?:static |async |readonly |get |set |abstract |protected |override |\\* ?)*${name}(?:<[^(]*>)?(?:\\(|[?!]?:| =)`,
    'm',
  );
  return declared.test(source) || member.test(source);
}

function section(heading: string): string {
  return HOUSE.split(`\n## ${heading}\n`)[1]?.split(/\n##/)[0] ?? '';
}

it('src/README.md has a row for each room and package of scripts/rooms.ts, in the same order', () => {
  const rows = [...HOUSE.matchAll(/^\| \[`([\w/]+)`\]\(/gm)].map(([, folder]) => folder);
  const packages = PACKAGES.map(({ folder }) => `packages/${folder}`);
  expect(rows).toEqual([...ROOMS.map(({ folder }) => folder), ...packages]);
});

describe('src/README.md', () => {
  it.each(HOPS)('links $name to $file, which defines that name', ({ name, file }) => {
    expect(existsSync(join(ROOT, file))).toBe(true);
    const source = readFileSync(join(ROOT, file), 'utf8');
    expect(name.split('.').filter((part) => !defines(source, part))).toEqual([]);
  });

  it.each(WALKS)('has a section "%s" with a numbered list of at least five functions', (heading) => {
    const hops = [...section(heading).matchAll(/^\d+\. .*\[`/gm)];
    expect(hops.length).toBeGreaterThanOrEqual(5);
  });
});
