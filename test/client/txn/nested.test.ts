import { expect, test } from 'vitest';
import { op, prefix } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

test.each(['then', 'else'] as const)('`txn` refuses a put of a key that a nested `%s` list deletes', async (list) => {
  const nested = op.txn({ if: [], [list]: [op.delete(prefix('a'))] });
  const error = await errorOf(openClient().txn({ then: [op.put('ab', '1'), nested] }));
  expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
});
