import { describe, expect, test } from 'vitest';
import { op } from '../../../../src/index.js';
import { errorOf } from '../../../support/errors.js';
import { httpServer, openGateway } from '../../../support/gateway.js';

/** Returns JSON in which `open` and `close` stand around the number 1 `levels` times. */
function nested(open: string, close: string, levels: number): string {
  return open.repeat(levels) + 1 + close.repeat(levels);
}

const TEN_THOUSAND_ARRAYS = nested('[', ']', 10_000);
/** The fields make `Number(value)` throw a TypeError for an object that has them. */
const NO_NUMBER = '{"toString":1,"valueOf":1}';

/** JSON that the client cannot examine with recursive functions or with conversions. */
const HOSTILE: Record<string, string> = {
  'nested errors': nested('{"error":', '}', 6_000),
  'nested errors, each with a code': nested('{"code":14,"error":', '}', 3_000),
  'an error whose code is not a number': `{"error":{"code":${NO_NUMBER}}}`,
  'an error whose code is an array of nested arrays': `{"error":{"code":${TEN_THOUSAND_ARRAYS}}}`,
  'a code that is not a number': `{"code":${NO_NUMBER}}`,
  'a message of nested arrays': `{"code":14,"message":${TEN_THOUSAND_ARRAYS}}`,
  'an error of nested arrays': `{"error":${TEN_THOUSAND_ARRAYS}}`,
};

describe.each(Object.entries(HOSTILE))('%s', (_, text) => {
  test.each([200, 400, 500, 503])('in an answer with status %i reject a put with outcome unknown', async (status) => {
    let requests = 0;
    const url = await httpServer((request, response) => {
      requests += 1;
      request.resume();
      response.writeHead(status).end(text);
    });
    const error = await errorOf(openGateway({ endpoints: [url] }).put('k', 'v'));
    expect(error).toMatchObject({ method: '/etcdserverpb.KV/Put', endpoint: url, outcome: 'unknown' });
    expect(requests).toBe(1);
  });

  test('in a line of a watch reject the watch with an EtcdError', async () => {
    const url = await httpServer((request, response) => {
      request.resume();
      response.end(`{"result":{"header":{},"watch_id":"1","created":true}}\n${text}\n`);
    });
    const watch = openGateway({ endpoints: [url] }).watch('k', { signal: AbortSignal.timeout(400) });
    expect(await errorOf(watch.batches().next())).toMatchObject({ outcome: expect.any(String) });
  });
});

test('nested answers of transactions reject a transaction with MalformedMessage', async () => {
  const answer = `{"header":{},"responses":${nested('[{"response_txn":{"responses":', '}}]', 5_000)}}`;
  const url = await httpServer((request, response) => {
    request.resume();
    response.end(answer);
  });
  const error = await errorOf(openGateway({ endpoints: [url] }).txn({ then: [op.get('k')] }));
  expect(error).toMatchObject({ reason: 'MalformedMessage', outcome: 'unknown' });
  expect(error.message).toMatch(/allowed: at most 100 levels of messages/);
  expect(error.message.length).toBeLessThan(3_000);
});
