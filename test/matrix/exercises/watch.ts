import assert from 'node:assert/strict';
import { type ExercisesOf, freshName } from '../exercise.js';

export const watch: ExercisesOf<'watch'> = {
  watch: {
    since: '3.0',
    run: async ({ etcd }) => {
      const key = freshName();
      await etcd.put(key, '1');
      const watching = etcd.watch(key, { prevKv: true });
      await watching.created();
      const { header } = await etcd.put(key, '2');
      await etcd.delete(key);
      const seen: unknown[] = [];
      for await (const { type, modRevision, prevKv } of watching) {
        seen.push([type, modRevision, prevKv?.text()]);
        if (seen.length === 2) break;
      }
      assert.deepEqual(seen, [
        ['put', header.revision, '1'],
        ['delete', header.revision + 1n, '2'],
      ]);
    },
  },
};
