import { expect, test } from 'vitest';
import type { WatchEvent } from '../../../src/index.js';
import { WatchResponses } from '../src/etcdctl/watch.js';

test('a watch of --etcdctl collects the events of a revision that has deleted 200,000 keys', () => {
  const events = Array.from<WatchEvent>({ length: 200_000 });
  const responses = new WatchResponses();
  expect(responses.push({ revision: 5n, events })).toBeUndefined();
});
