import assert from 'node:assert/strict';
import type { Fields } from '../../../course/04-protobuf.js';
import { assertResult, checks, hex, hexOf, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/04-protobuf.js') &
  typeof import('../../../course/answers/04-protobuf.js');

export const PROTOBUF = checks<Chapter>((check) => {
  check('encode', PROGRAM, 'encodes integers, texts, nested messages and repeated fields', ({ encode }) => {
    const test = (what: string, fields: Fields, bytes: string): void =>
      assertResult(`encode(${what})`, () => encode(fields), hex(bytes));
    test('{ 1: 600, 2: 7n }', { 1: 600, 2: 7n }, '08d804 1007');
    test('{ 1: -1 }', { 1: -1 }, '08 ffffffffffffffffff01');
    test("{ 1: { 1: 'a' }, 2: [1, 2] }", { 1: { 1: 'a' }, 2: [1, 2] }, '0a03 0a0161 1001 1002');
  });
  check('Message', PROGRAM, 'decodes what `encode` encodes, and fields in any order', ({ encode, Message }) => {
    const message = new Message(Buffer.concat([encode({ 3: 'x', 2: [{ 1: 1 }, { 1: 2 }] }), encode({ 1: -5n })]));
    assert.equal(message.int(1), -5n);
    assert.deepEqual(
      message.messages(2).map((nested) => nested.int(1)),
      [1n, 2n],
    );
    assert.equal(`${message.bytes(3)}`, 'x');
    assert.deepEqual([message.int(9), `${message.bytes(9)}`, message.messages(9)], [0n, '', []]);
  });
  check('list', 1, 'lists the fields of any message', ({ list }) => {
    const bytes = hex('08d804 1203616263 10 01');
    assertResult(`list of ${hexOf(bytes)}`, () => list(bytes), ['1: 600', '2: 3 bytes', '2: 1']);
  });
  check('zigzag', 2, 'maps 0, -1, 1, -2 to 0, 1, 2, 3', ({ zigzag }) => {
    const expected = [0n, 1n, 2n, 3n, 2n ** 64n - 1n];
    for (const [index, value] of [0n, -1n, 1n, -2n, -(2n ** 63n)].entries())
      assertResult(`zigzag(${value}n)`, () => zigzag(value), expected[index]);
  });
  check('merge', 3, 'replaces the values of the first message', ({ merge, Message }) => {
    const message = new Message(merge({ 1: 1, 2: 'old' }, { 2: 'new' }));
    assert.deepEqual([message.int(1), `${message.bytes(2)}`], [1n, 'new']);
  });
});
