import { expect, test } from 'vitest';
import type { JsonObject } from '../../../src/extras/transports/json/json.js';
import { type Queue, sentenceFor } from '../src/trace/sentences.js';

const QUEUE: Queue = {
  contenderOf: (key) => ({ 'jobs/1': 'this client', 'jobs/2': 'contender 1' })[key],
  isPrefix: (key) => key === 'jobs/',
};
const RANGE = { key: 'jobs/', range_end: 'jobs0', sort_target: 'CREATE' };
/** The keys of a lock of which the trace knows no queue. */
const OTHER = { key: 'other/', range_end: 'other0' };

function sentence(type: string, fields: JsonObject, request?: JsonObject): string {
  return sentenceFor({ typeName: `etcdserverpb.${type}`, method: '/etcdserverpb.KV/Range' }, fields, QUEUE, request);
}

test.each<readonly [JsonObject, string, JsonObject, string]>([
  [{ key: 'a' }, 'get a', {}, 'the key does not exist'],
  [{ key: 'a' }, 'get a', { kvs: [{ key: 'a', value: '1' }] }, 'found a = 1'],
  [{ key: 'a', keys_only: true }, 'get a', { kvs: [{ key: 'a' }] }, 'found a'],
  [{ key: 'jobs/1' }, 'get my queue key', { kvs: [{ key: 'jobs/1', value: 'A' }] }, 'found your queue key'],
  [{ key: 'a', range_end: 'b' }, 'get all keys that begin with a', { kvs: [{ key: 'a' }] }, 'found a'],
  [{ key: 'a', count_only: true }, 'count a', { count: '1' }, '1 key'],
  [{ key: 'a', range_end: 'b', count_only: true }, 'count keys', {}, '0 keys'],
  [
    { ...RANGE, sort_order: 'ASCEND', limit: '1' },
    'get the holder',
    { kvs: [{ key: 'jobs/1' }] },
    'this client is the holder',
  ],
  [{ ...RANGE, sort_order: 'DESCEND', limit: '1' }, 'get the contender ahead', {}, 'no contender is ahead'],
  [
    { ...RANGE, sort_order: 'ASCEND', limit: '3' },
    'get the queue',
    { kvs: [{ key: 'jobs/1' }, { key: 'jobs/2' }] },
    'the queue: this client, contender 1',
  ],
  [RANGE, 'get the queue', {}, 'the queue is empty'],
  [
    { ...RANGE, ...OTHER, sort_order: 'DESCEND', limit: '1', max_create_revision: '7' },
    'get the newest before revision 8 of all keys that begin with other/',
    {},
    'no key is before revision 8',
  ],
  [
    { ...RANGE, ...OTHER, sort_order: 'DESCEND', limit: '1', max_create_revision: '7' },
    'get the newest before revision 8 of all keys that begin with other/',
    { kvs: [{ key: 'other/1' }] },
    'other/1 is before revision 8',
  ],
  [
    { ...RANGE, ...OTHER, sort_order: 'DESCEND', limit: '1' },
    'get the newest of all keys that begin with other/',
    { kvs: [{ key: 'other/1' }] },
    'found other/1',
  ],
  [
    { ...RANGE, ...OTHER, sort_order: 'ASCEND', limit: '1' },
    'get the oldest of all keys that begin with other/',
    {},
    'no keys',
  ],
  [
    { key: 'other/', range_end: 'jobs0', limit: '1' },
    'get all keys from other/ to before jobs0',
    { kvs: [{ key: 'other/1' }] },
    'found other/1',
  ],
])(
  'the trace describes the range request %j as "%s", and its response %j as "%s"',
  (request, asked, response, answered) => {
    expect(sentence('RangeRequest', request)).toBe(asked);
    expect(sentence('RangeResponse', response, request)).toBe(answered);
  },
);

const CREATED_AT_7 = { target: 'CREATE', create_revision: '7' };

test.each<readonly [JsonObject, string, JsonObject, string]>([
  [
    { compare: [{ key: 'a', ...CREATED_AT_7 }] },
    'check whether a, created at revision 7, still exists',
    { succeeded: true },
    'the condition is true',
  ],
  [
    { compare: [{ key: 'jobs/1', ...CREATED_AT_7 }] },
    'check whether my queue key still exists',
    {},
    'the condition is false',
  ],
  [
    { compare: [{ key: 'a', ...CREATED_AT_7 }], success: [{ request_put: { key: 'b', value: '1' } }] },
    'if a, created at revision 7, still exists: put b = 1',
    { succeeded: true, responses: [{ response_put: {} }] },
    'applied',
  ],
  [
    { compare: [{ key: 'a', target: 'CREATE' }], failure: [{ request_range: { key: 'a' } }] },
    'unless a does not exist: get a',
    { responses: [{ response_range: { kvs: [{ key: 'a' }] } }] },
    'the condition is false: found a = ""',
  ],
  [
    {
      compare: [
        { key: 'etcdwire/guards/1', target: 'MOD' },
        { key: 'a', target: 'CREATE' },
      ],
      success: [{ request_put: { key: 'a', value: '1' } }, { request_put: { key: 'etcdwire/guards/1', value: '1 1' } }],
      failure: [{ request_range: { key: 'etcdwire/guards/1' } }],
    },
    'if a does not exist: put a = 1',
    { responses: [{ response_range: { kvs: [{ key: 'etcdwire/guards/1', value: '1 1' }] } }] },
    'the condition is false',
  ],
  [{}, 'do nothing', { succeeded: true }, 'applied'],
])(
  'the trace describes the transaction %j as "%s", and its response %j as "%s"',
  (request, asked, response, answered) => {
    expect(sentence('TxnRequest', request)).toBe(asked);
    expect(sentence('TxnResponse', response, request)).toBe(answered);
  },
);

test('the trace names the range for a deletion or watch of a range, and the key for a deletion or watch of one key', () => {
  expect(sentence('DeleteRangeRequest', { key: 'a', range_end: 'b' })).toBe('delete all keys that begin with a');
  expect(sentence('DeleteRangeRequest', { key: 'jobs/1' })).toBe('delete my queue key');
  expect(sentence('WatchRequest', { create_request: { key: 'a', range_end: 'b' } })).toBe(
    'watch all keys that begin with a',
  );
  expect(sentence('WatchRequest', { create_request: { key: 'jobs/2' } })).toBe('watch the queue key of contender 1');
  expect(sentence('WatchRequest', { create_request: { key: 'a', start_revision: '3' } })).toBe(
    'watch a from revision 3',
  );
});

test('the trace names the new values of keys in events, and the contenders whose queue keys changed', () => {
  const events = [
    { kv: { key: 'a', value: '1' } },
    { type: 'DELETE', kv: { key: 'b' } },
    { kv: { key: 'jobs/2', value: 'host' } },
  ];
  expect(sentence('WatchResponse', { events })).toBe('a = 1, b was deleted, the queue key of contender 1 was put');
});
