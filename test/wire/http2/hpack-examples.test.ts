import { describe, expect, test } from 'vitest';
import { HpackDecoder, HpackEncoder, STATIC_TABLE } from '../../../src/wire/http2/hpack.js';
import { type Field, STATIC_FIELDS, tableSize } from '../../support/http2-hpack.js';

// These tests check the examples of RFC 7541, appendix C, octet for octet.

const LIMIT = 65_536;

interface Example {
  readonly name: string;
  readonly octets: string;
  readonly fields: readonly Field[];
  /** The dynamic table after the block, newest entry first. */
  readonly table: readonly Field[];
}

const AUTHORITY: Field = [':authority', 'www.example.com'];
const NO_CACHE: Field = ['cache-control', 'no-cache'];
const CUSTOM: Field = ['custom-key', 'custom-value'];
const START: readonly Field[] = [
  [':method', 'GET'],
  [':scheme', 'http'],
  [':path', '/'],
];
const REQUESTS: readonly Pick<Example, 'fields' | 'table'>[] = [
  { fields: [...START, AUTHORITY], table: [AUTHORITY] },
  { fields: [...START, AUTHORITY, NO_CACHE], table: [NO_CACHE, AUTHORITY] },
  {
    fields: [[':method', 'GET'], [':scheme', 'https'], [':path', '/index.html'], AUTHORITY, CUSTOM],
    table: [CUSTOM, NO_CACHE, AUTHORITY],
  },
];

const STATUS_302: Field = [':status', '302'];
const STATUS_307: Field = [':status', '307'];
const PRIVATE: Field = ['cache-control', 'private'];
const DATE: Field = ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'];
const LATER: Field = ['date', 'Mon, 21 Oct 2013 20:13:22 GMT'];
const LOCATION: Field = ['location', 'https://www.example.com'];
const GZIP: Field = ['content-encoding', 'gzip'];
const COOKIE: Field = ['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1'];
const RESPONSES: readonly Pick<Example, 'fields' | 'table'>[] = [
  { fields: [STATUS_302, PRIVATE, DATE, LOCATION], table: [LOCATION, DATE, PRIVATE, STATUS_302] },
  { fields: [STATUS_307, PRIVATE, DATE, LOCATION], table: [STATUS_307, LOCATION, DATE, PRIVATE] },
  { fields: [[':status', '200'], PRIVATE, LATER, LOCATION, GZIP, COOKIE], table: [COOKIE, GZIP, LATER] },
];

const REQUEST_OCTETS = [
  '828684410f7777772e6578616d706c652e636f6d',
  '828684be58086e6f2d6361636865',
  '828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565',
];

test('the static table equals the table in appendix A of RFC 7541', () => {
  expect(STATIC_TABLE).toEqual(STATIC_FIELDS);
});

describe('an integer of RFC 7541, C.1,', () => {
  test('takes one octet when its value is 10 and its prefix has 5 bits', () => {
    expect(encodedTableSize(10)).toBe('2a');
    expect(holds('2a', '')).toBe(false);
  });

  test('takes three octets when its value is 1337 and its prefix has 5 bits', () => {
    expect(encodedTableSize(1_337)).toBe('3f9a0a');
    // An entry counts 32 bytes in addition to its name and value.
    expect(holds('3f9a0a', 'x'.repeat(1_337 - 32 - 1))).toBe(true);
    expect(holds('3f9a0a', 'x'.repeat(1_337 - 32))).toBe(false);
  });

  test('takes one octet when its value is 42 and it starts at an octet boundary', () => {
    const value = Buffer.alloc(42, 'v').toString('latin1');
    const { fields } = decode(new HpackDecoder(LIMIT), `000161${'2a'}${Buffer.from(value).toString('hex')}`);
    expect(fields).toEqual([['a', value]]);
  });
});

describe('the HPACK decoder reads the example', () => {
  test.each<Example>([
    {
      name: 'of a literal with indexing in RFC 7541, C.2.1',
      octets: '400a637573746f6d2d6b65790d637573746f6d2d686561646572',
      fields: [['custom-key', 'custom-header']],
      table: [['custom-key', 'custom-header']],
    },
    {
      name: 'of a literal without indexing in RFC 7541, C.2.2',
      octets: '040c2f73616d706c652f70617468',
      fields: [[':path', '/sample/path']],
      table: [],
    },
    {
      name: 'of a literal that is never indexed in RFC 7541, C.2.3',
      octets: '100870617373776f726406736563726574',
      fields: [['password', 'secret']],
      table: [],
    },
    { name: 'of an indexed field in RFC 7541, C.2.4', octets: '82', fields: [[':method', 'GET']], table: [] },
  ])('$name', ({ octets, fields, table }) => {
    const decoder = new HpackDecoder(LIMIT);
    expect(decode(decoder, octets)).toEqual({ fields, isTooLarge: false });
    expect(tableOf(decoder)).toEqual(table);
  });
});

describe.each([
  {
    name: 'the requests without Huffman coding in RFC 7541, C.3,',
    octets: REQUEST_OCTETS,
    examples: REQUESTS,
    tableBytes: 4_096,
  },
  {
    name: 'the requests with Huffman coding in RFC 7541, C.4,',
    octets: [
      '828684418cf1e3c2e5f23a6ba0ab90f4ff',
      '828684be5886a8eb10649cbf',
      '828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf',
    ],
    examples: REQUESTS,
    tableBytes: 4_096,
  },
  {
    name: 'the responses without Huffman coding in RFC 7541, C.5, whose table has 256 bytes,',
    octets: [
      '4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d',
      '4803333037c1c0bf',
      '88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31',
    ],
    examples: RESPONSES,
    tableBytes: 256,
  },
  {
    name: 'the responses with Huffman coding in RFC 7541, C.6, whose table has 256 bytes,',
    octets: [
      '488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3',
      '4883640effc1c0bf',
      '88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007',
    ],
    examples: RESPONSES,
    tableBytes: 256,
  },
])('$name', ({ octets, examples, tableBytes }) => {
  test('are decoded to the fields and the dynamic tables that the RFC lists', () => {
    const decoder = new HpackDecoder(LIMIT);
    expect(decode(decoder, tableSize(tableBytes).toString('hex')).fields).toEqual([]);
    for (const [index, { fields, table }] of examples.entries()) {
      expect(decode(decoder, octets[index] as string)).toEqual({ fields, isTooLarge: false });
      expect(tableOf(decoder)).toEqual(table);
    }
  });
});

test('the requests in RFC 7541, C.3, are encoded to the octets that the RFC lists', () => {
  const encoder = new HpackEncoder();
  expect(REQUESTS.map(({ fields }) => Buffer.from(encoder.encode(fields)).toString('hex'))).toEqual(REQUEST_OCTETS);
});

function decode(decoder: HpackDecoder, hex: string): ReturnType<HpackDecoder['decode']> {
  const bytes = Buffer.from(hex, 'hex');
  return decoder.decode(bytes, 0, bytes.length);
}

/**
 * Reads the dynamic table, newest entry first, through the indices beyond the static table. Does not change the table.
 */
function tableOf(decoder: HpackDecoder): Field[] {
  const table: Field[] = [];
  for (let index = STATIC_FIELDS.length + 1; ; index += 1) {
    try {
      table.push(...decode(decoder, (0x80 | index).toString(16)).fields);
    } catch {
      return table;
    }
  }
}

/**
 * Returns, in hexadecimal, the octets that the encoder sends to signal this table size. Omits the preceding octet,
 * which empties the table.
 */
function encodedTableSize(bytes: number): string {
  const encoder = new HpackEncoder();
  encoder.resize(bytes);
  const hex = Buffer.from(encoder.encode([])).toString('hex');
  expect(hex.startsWith('20')).toBe(true);
  return hex.slice(2);
}

/** Returns whether a dynamic table of the signaled size stores the field `a` with this value. */
function holds(sizeHex: string, value: string): boolean {
  const decoder = new HpackDecoder(LIMIT);
  const encoded = Buffer.from(new HpackEncoder().encode([['a', value]])).toString('hex');
  decode(decoder, `${sizeHex}${encoded}`);
  return tableOf(decoder).length === 1;
}
