import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { STATUS_CODES } from '../../src/base/status.js';
import { errorFromText } from '../../src/base/status-error.js';
import { HeaderReader } from '../../src/wire/http2/header-reader.js';
import { errorOfHeaders, errorOfTrailers, responseFields } from '../../src/wire/http2/response.js';
import { fuzz } from '../support/fuzz.js';
import { block, type Field } from '../support/http2-hpack.js';

interface Input {
  /** The fields of headers or trailers. Each character of a string stands for one octet. */
  readonly fields: readonly Field[];
  /** The `cancel_reason` of a watch that the server cancels. */
  readonly cancelReason: string;
}

const { errors }: { errors: readonly { readonly message: string }[] } = JSON.parse(
  readFileSync(new URL('../facts/etcd-v3-errors.json', import.meta.url), 'utf8'),
);
const where = { method: '/etcdserverpb.KV/Put', endpoint: 'http://127.0.0.1:2379' };

const octets = fc.string({ unit: fc.nat({ max: 255 }).map((octet) => String.fromCharCode(octet)), maxLength: 40 });
const sentence = fc.oneof(
  fc.constantFrom(...errors.map(({ message }) => message)),
  fc.string({ unit: 'binary', maxLength: 40 }),
);
const message = fc.oneof(
  octets,
  sentence.map(percentEncoded),
  fc
    .array(fc.constantFrom('%', '%4', '%41', '%zz', '%00', '%ff', '%E2%82', '€', 'a', '%%'), { maxLength: 12 })
    .map((parts) => parts.join('').replaceAll('€', '\xe2\x82\xac')),
);
const number = fc.oneof(
  { weight: 3, arbitrary: fc.nat({ max: 17 }).map(String) },
  { weight: 1, arbitrary: fc.constantFrom('', '-1', '07', '1e3', ' 0', '0x1', '999999999', '9'.repeat(40), 'OK') },
  { weight: 1, arbitrary: octets },
);
const field: fc.Arbitrary<Field> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.constant('grpc-status'), number) },
  { weight: 6, arbitrary: fc.tuple(fc.constant('grpc-message'), message) },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constant(':status'), fc.oneof(fc.constantFrom('200', '404', '503', '99'), number)),
  },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom('content-type', 'content-length'), fc.oneof(octets, number)) },
  { weight: 1, arbitrary: fc.tuple(octets, octets) },
);
const cancelReason = fc.oneof(
  sentence,
  fc
    .tuple(fc.oneof(fc.constantFrom(...STATUS_CODES), fc.string({ maxLength: 9 })), sentence)
    .map(([code, text]) => `rpc error: code = ${code} desc = ${text}`),
);

fuzz<Input>({
  target: 'status',
  property:
    'the client converts any trailers to status OK or a valid EtcdError, and any `cancel_reason` to a valid EtcdError',
  inputs: fc.record({ fields: fc.array(field, { maxLength: 6 }), cancelReason }),
  runs: 6_000,
  parts: { OK: 0.01, error: 0.5 },
  check: ({ fields, cancelReason: reason }) => {
    const said = errorFromText(reason, where);
    checkError(said);
    expect(said.outcome).toBe('rejected');
    if (!said.problem.startsWith('gRPC status')) expect(reason).toContain(said.problem);

    const bytes = block(fields);
    const read = new HeaderReader(65_536, responseFields).read(bytes, 0, bytes.length);
    const error = errorOfTrailers(read, where);
    for (const each of [errorOfHeaders(read, where), error]) if (each !== undefined) checkError(each);
    const last = (name: string): string | undefined => fields.filter((each) => each[0] === name).at(-1)?.[1];
    expect(error === undefined).toBe(/^0{1,9}$/.test(last('grpc-status') ?? ''));
    const text = last('grpc-message');
    if (error !== undefined && text !== undefined && last('grpc-status') !== undefined) {
      // `problem` must not be longer than the text that was sent, because each octet becomes at most one character.
      const problem = error.problem.replace(ADDED, '');
      expect(problem.length).toBeLessThanOrEqual(Math.max(text.length, 'gRPC status FailedPrecondition'.length));
      const meant = decoded(text);
      if (meant !== undefined && meant !== '') expect(problem).toBe(meant);
    }
    return error === undefined ? 'OK' : 'error';
  },
});

function checkError(error: EtcdError): void {
  expect(error).toBeInstanceOf(EtcdError);
  expect(STATUS_CODES).toContain(error.code);
  expect(error.code).not.toBe('OK');
  expect(['not-sent', 'rejected', 'unknown']).toContain(error.outcome);
  expect([error.reason !== undefined, error.problem !== '']).toEqual([true, true]);
  expect(error).toMatchObject(where);
}

/** What the client adds to the text of the server. */
const ADDED = /: the server speaks gRPC, but it is not etcd$|; compact with physical: true, then defragment$/;

/** Decodes a `grpc-message`. Returns undefined if the encoding is invalid. */
function decoded(text: string): string | undefined {
  try {
    return /^[ -~]*$/.test(text) ? decodeURIComponent(text) : undefined;
  } catch {
    return undefined;
  }
}

/** Percent-encodes a text as gRPC encodes the field `grpc-message`. */
function percentEncoded(text: string): string {
  return [...Buffer.from(text)]
    .map((octet) =>
      octet >= 0x20 && octet <= 0x7e && octet !== 0x25
        ? String.fromCharCode(octet)
        : `%${octet.toString(16).toUpperCase().padStart(2, '0')}`,
    )
    .join('');
}
