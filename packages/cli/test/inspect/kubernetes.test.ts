import fc from 'fast-check';
import { expect, test } from 'vitest';
import { concatBytes, toBase64 } from '../../../../src/base/bytes.js';
import { frameText, readableFields } from '../../src/frames.js';
import { explain } from '../../src/inspect/explain.js';
import type { WireMessage } from '../../src/inspect/frames.js';
import { kubernetesName, kubernetesValue } from '../../src/inspect/kubernetes.js';
import { sentenceFor } from '../../src/trace/sentences.js';

const NO_QUEUE = { contenderOf: () => undefined, isPrefix: () => false };
const KEY = '/registry/pods/default/web';

/** Encodes a field of Protobuf whose value is bytes. */
function field(number: number, value: Uint8Array | string): Uint8Array {
  const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
  return Uint8Array.of(number * 8 + 2, bytes.length, ...bytes);
}

/** The value of a pod of which the API server has stored 5 bytes. */
const POD = concatBytes(
  new TextEncoder().encode('k8s\0'),
  field(1, concatBytes(field(1, 'v1'), field(2, 'Pod'))),
  field(2, Uint8Array.of(0xff, 1, 2, 3, 4)),
  field(3, ''),
  field(4, ''),
);

function put(value: Uint8Array, key = KEY): WireMessage {
  const bytes = concatBytes(field(1, key), field(2, value));
  return { method: '/etcdserverpb.KV/Put', typeName: 'etcdserverpb.PutRequest', bytes };
}

test.each([
  ['/registry/pods/default/web', 'Pod default/web'],
  ['/registry/minions/worker-1', 'Node worker-1'],
  ['/registry/namespaces/default', 'Namespace default'],
  ['/registry/services/specs/default/api', 'Service default/api'],
  ['/registry/services/endpoints/default/api', 'Endpoints default/api'],
  ['/registry/events/default/web.1', 'Event default/web.1'],
  ['/registry/ranges/serviceips', 'RangeAllocation serviceips'],
  ['/registry/masterleases/10.0.0.1', 'Endpoints 10.0.0.1'],
  ['/registry/apiregistration.k8s.io/apiservices/v1.apps', 'APIService v1.apps'],
  ['/registry/example.com/widgets/default/w1', 'widgets.example.com default/w1'],
  ['/registry/example.com/widgets/w1', 'widgets.example.com w1'],
  ['/registry/newthings/default/a', 'newthings default/a'],
  ['/registry/constructor/a', 'constructor a'],
  ['/registry/pods/', 'every Pod'],
  ['/registry/pods/default/', 'every Pod in default'],
  ['/registry/example.com/widgets/', 'every widgets.example.com'],
  ['/registry/health', undefined],
  ['/registry/', undefined],
  ['/registry/pods//web', undefined],
  ['/registry/example.com/', undefined],
  ['/registry/pods/default/web/more', undefined],
  ['/other/pods/default/web', undefined],
])('`kubernetesName` names the object of the key %s: %s', (key, name) => {
  expect(kubernetesName(key)).toBe(name);
});

test('`kubernetesValue` describes an object in Protobuf by its version, its kind and its length', () => {
  expect(kubernetesValue(KEY, POD)).toBe('v1 Pod, 5 bytes of protobuf');
});

test.each([
  [
    '{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1"}',
    'apiregistration.k8s.io/v1 APIService, 62 bytes of JSON',
  ],
  ['{"apiVersion":"example.com/v1","kind":"Widget"}', 'example.com/v1 Widget, 47 bytes of JSON'],
  ['k8s:enc:aescbc:v1:key1:0123', 'encrypted by aescbc v1 with key1, 4 bytes'],
  ['k8s:enc:kms:v2:vault:0', 'encrypted by kms v2 with vault, 1 byte'],
  ['{"metadata":{}}', undefined],
  ['k8s:enc:aescbc', undefined],
  ['k8s\0', undefined],
  ['', undefined],
] as const)('`kubernetesValue` describes the value %j as %s', (value, description) => {
  const bytes = new TextEncoder().encode(value);
  expect(kubernetesValue(KEY, bytes)).toBe(description);
  expect(kubernetesValue('other', bytes)).toBeUndefined();
});

test('the trace shows kind, namespace and name of an object of Kubernetes, and the fields around it', () => {
  const message = put(POD);
  expect(sentenceFor(message, { key: KEY, value: `base64:${toBase64(POD)}` }, NO_QUEUE)).toBe(
    'put Pod default/web = v1 Pod, 5 bytes of protobuf',
  );
  expect(readableFields(message)).toEqual({ key: KEY, value: 'v1 Pod, 5 bytes of protobuf' });
  const spans = [...explain(message.typeName, message.bytes)];
  expect(spans.map(({ start }) => start)).toEqual([0, ...spans.map(({ end }) => end)].slice(0, spans.length));
  expect(
    spans.flatMap(({ part, depth, field: of, value }) => (part === 'value' ? [[depth, of?.name, value]] : [])),
  ).toEqual([
    [0, 'key', new TextEncoder().encode(KEY)],
    [0, 'value', new TextEncoder().encode('k8s\0')],
    [2, 'apiVersion', 'v1'],
    [2, 'kind', 'Pod'],
    [1, 'raw', Uint8Array.of(0xff, 1, 2, 3, 4)],
  ]);
});

test('the trace shows a broken object of Kubernetes as it shows any other value', () => {
  const plain = (value: Uint8Array) => [
    ...explain('etcdserverpb.PutRequest', put(value, 'x'.repeat(KEY.length)).bytes),
  ];
  const broken = fc.oneof(
    fc.nat({ max: POD.length - 1 }).map((length) => POD.slice(0, length)),
    fc.tuple(fc.nat({ max: POD.length - 1 }), fc.nat({ max: 255 })).map(([at, byte]) => POD.with(at, byte)),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => concatBytes(POD.slice(0, 4), bytes)),
  );
  fc.assert(
    fc.property(broken, (value) => {
      const spans = [...explain('etcdserverpb.PutRequest', put(value).bytes)];
      expect(spans.at(-1)?.end).toBe(put(value).bytes.length);
      expect(spans.map(({ start }) => start)).toEqual([0, ...spans.map(({ end }) => end)].slice(0, spans.length));
      const isDecoded = spans.some(({ depth }) => depth > 0);
      if (!isDecoded)
        expect(spans.map(({ part, start, end }) => [part, start, end])).toEqual(
          plain(value).map(({ part, start, end }) => [part, start, end]),
        );
      const fields = readableFields(put(value));
      if (kubernetesValue(KEY, value) === undefined)
        expect({ ...fields, key: '' }).toEqual({ ...readableFields(put(value, 'x')), key: '' });
    }),
  );
});

test('a printed frame describes the value of a key of Kubernetes', () => {
  const message = put(POD);
  const detail = { kind: 'data', messages: [message] } as const;
  const common = {
    atMs: 0,
    connection: 1,
    endpoint: '',
    direction: 'sent',
    streamId: 1,
    type: 'DATA',
    flags: [],
  } as const;
  const text = frameText({ ...common, bytes: message.bytes, detail }, 0);
  expect(text).toContain(`PutRequest {"key":"${KEY}","value":"v1 Pod, 5 bytes of protobuf"}`);
});
