import type { Fields } from '../../../course/04-protobuf.js';
import { assertResult, checks, hex, hexOf, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/04-protobuf.js') &
  typeof import('../../../course/answers/04-protobuf.js');

export const PROTOBUF = checks<Chapter>((check) => {
  check('encode', PROGRAM, 'encodes integers, texts, nested messages and repeated fields', async ({ encode }) => {
    const test = (what: string, fields: Fields, bytes: string) =>
      assertResult(`encode(${what})`, () => encode(fields), hex(bytes));
    await test('{ 1: 600, 2: 7n }', { 1: 600, 2: 7n }, '08d804 1007');
    await test('{ 1: -1 }', { 1: -1 }, '08 ffffffffffffffffff01');
    await test("{ 1: { 1: 'a' }, 2: [1, 2] }", { 1: { 1: 'a' }, 2: [1, 2] }, '0a03 0a0161 1001 1002');
  });
  check('Message', PROGRAM, 'decodes fields in any order', async ({ Message }) => {
    // Field 3 is "x", field 2 contains two messages whose fields 1 are 1 and 2, and field 1 is -5.
    const bytes = hex('1a0178 12020801 12020802 08fbffffffffffffffff01');
    const test = (what: string, read: (message: InstanceType<typeof Message>) => unknown, expected: unknown) =>
      assertResult(`new Message of ${hexOf(bytes)}, then ${what}`, () => read(new Message(bytes)), expected);
    await test('int(1)', (message) => message.int(1), -5n);
    await test('bytes(3) as a text', (message) => `${message.bytes(3)}`, 'x');
    await test('int(1) of messages(2)', (message) => message.messages(2).map((nested) => nested.int(1)), [1n, 2n]);
    await test('int(9)', (message) => message.int(9), 0n);
    await test('bytes(9) as a text', (message) => `${message.bytes(9)}`, '');
    await test('messages(9)', (message) => message.messages(9), []);
  });
  check('list', 1, 'lists the fields of any message', async ({ list }) => {
    const bytes = hex('08d804 1203616263 1001 800105 2200');
    const lines = ['1: 600', '2: 3 bytes', '2: 1', '16: 5', '4: 0 bytes'];
    await assertResult(`list of ${hexOf(bytes)}`, () => list(bytes), lines);
  });
  check('zigzag', 2, 'maps 0, -1, 1, -2 to 0, 1, 2, 3', async ({ zigzag }) => {
    const expected = [0n, 1n, 2n, 3n, 2n ** 64n - 1n];
    for (const [index, value] of [0n, -1n, 1n, -2n, -(2n ** 63n)].entries())
      await assertResult(`zigzag(${value}n)`, () => zigzag(value), expected[index]);
  });
  check('merge', 3, 'replaces the values of the first message', async ({ merge, Message }) => {
    const merged = () => {
      const message = new Message(merge({ 1: 1, 2: 'old' }, { 2: 'new' }));
      return { 1: message.int(1), 2: `${message.bytes(2)}` };
    };
    await assertResult("merge({ 1: 1, 2: 'old' }, { 2: 'new' }), decoded", merged, { 1: 1n, 2: 'new' });
  });
});
