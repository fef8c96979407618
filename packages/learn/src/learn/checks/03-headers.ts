import { assertResult, checks, hex, hexOf, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/03-headers.js') & typeof import('../../../course/answers/03-headers.js');

export const HEADERS = checks<Chapter>((check) => {
  check('encodeHeaders', PROGRAM, 'encodes fields without a table', async ({ encodeHeaders }) => {
    const expected = hex('00 02 7465 08 747261696c657273');
    await assertResult("encodeHeaders({ te: 'trailers' })", () => encodeHeaders({ te: 'trailers' }), expected);
  });
  check('decodeHeaders', PROGRAM, 'decodes the trailers of etcd', async ({ decodeHeaders }) => {
    // The last two fields are the same one, content-type, in the two forms with the index 31: 0f 10 and 5f.
    const start = '20 88 00 889acac8b21234da8f 01 30 00 899acac8b5254207317f 00';
    const block = hex(`${start} 0f10 8b1d75d0620d263d4c4d6564 5f 8b1d75d0620d263d4c4d6564`);
    const fields = { ':status': '200', 'grpc-status': '0', 'grpc-message': '', 'content-type': 'application/grpc' };
    await assertResult(`decodeHeaders of ${hexOf(block)}`, () => Object.fromEntries(decodeHeaders(block)), fields);
  });
  check(
    'encodeInteger',
    1,
    'encodes numbers that fit, that just do not fit, and large ones',
    async ({ encodeInteger }) => {
      // The first three are the examples of RFC 7541, appendix C.1.
      const examples = [
        [10, 5, '0a'],
        [1337, 5, '1f9a0a'],
        [42, 8, '2a'],
        [30, 5, '1e'],
        [31, 5, '1f00'],
        [31 + 127, 5, '1f7f'],
        [31 + 128, 5, '1f8001'],
        [255, 8, 'ff00'],
        [2 ** 32, 7, '7f81ffffff0f'],
      ] as const;
      for (const [value, bits, bytes] of examples)
        await assertResult(`encodeInteger(${value}, ${bits})`, () => encodeInteger(value, bits), hex(bytes));
    },
  );
  check('encodeHuffman', 2, 'encodes texts, and fills only a last byte that is not full', async ({ encodeHuffman }) => {
    // The first two are examples of RFC 7541, appendix C.4. The codes of the third text end where a byte ends.
    const examples = {
      'www.example.com': 'f1e3c2e5f23a6ba0ab90f4ff',
      'no-cache': 'a8eb10649cbf',
      aaaaaaaa: '18c6318c63',
    };
    for (const [text, bytes] of Object.entries(examples))
      await assertResult(`encodeHuffman('${text}')`, () => encodeHuffman(text), hex(bytes));
  });
  check('encodePostOverHttp', 3, 'encodes two fields in two bytes', async ({ encodePostOverHttp }) => {
    await assertResult('encodePostOverHttp()', () => encodePostOverHttp(), hex('8386'));
  });
});
