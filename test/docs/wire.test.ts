import { readFileSync } from 'node:fs';
import { expect, inject, test } from 'vitest';
import { withScenes } from '../../scripts/wire/page.js';
import { play } from '../../scripts/wire/scenario.js';

const PAGE = readFileSync(new URL('../../docs/wire.md', import.meta.url), 'utf8');
/** That of which the page tells; what others say of themselves differs by a few bytes. */
const MINOR = '3.6.';

test('the bytes in docs/wire.md are those that go over the wire', async (context) => {
  if (!inject('etcdVersion')?.startsWith(MINOR)) return context.skip(`the page tells of etcd ${MINOR}x`);
  const run = await play();
  if (run === undefined) return context.skip('the server in use is not ours to start');
  const shown = [...PAGE.matchAll(/^```text (.+)$/gm)].map(([, name]) => name);
  expect(shown.toSorted()).toEqual([...run.scenes.keys()].toSorted());
  expect(withScenes(PAGE, run.scenes)).toBe(PAGE);
});
