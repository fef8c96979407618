import { readFileSync } from 'node:fs';
import { expect, inject, test } from 'vitest';
import { withScenes } from '../../scripts/wire/page.js';
import { play } from '../../scripts/wire/scenario.js';

const PAGE = readFileSync(new URL('../../docs/wire.md', import.meta.url), 'utf8');
/** The etcd version whose bytes the page shows. The bytes of other versions differ a little. */
const MINOR = '3.6.';

test('docs/wire.md contains the bytes that a new run of scripts/wire.ts would write into the page', async (context) => {
  if (!inject('etcdVersion')?.startsWith(MINOR)) return context.skip(`docs/wire.md shows etcd ${MINOR}x`);
  const run = await play();
  if (run === undefined) return context.skip('needs an etcd that it can start itself');
  const shown = [...PAGE.matchAll(/^```text (.+)$/gm)].map(([, name]) => name);
  expect(shown.toSorted()).toEqual([...run.scenes.keys()].toSorted());
  expect(withScenes(PAGE, run.scenes)).toBe(PAGE);
});
