import assert from 'node:assert/strict';
import { checks, hex, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../docs/learn/03-headers.js') &
  typeof import('../../../docs/learn/answers/03-headers.js');

export const HEADERS = checks<Chapter>((check) => {
  check('encodeHeaders', PROGRAM, 'encodes fields without a table', ({ encodeHeaders }) => {
    assert.deepEqual(encodeHeaders({ te: 'trailers' }), hex('00 02 7465 08 747261696c657273'));
  });
  check('decodeHeaders', PROGRAM, 'decodes the trailers of etcd', ({ decodeHeaders }) => {
    const block = hex('20 88 00 889acac8b21234da8f 01 30 00 899acac8b5254207317f 00 5f 8b1d75d0620d263d4c4d6564');
    const fields = { ':status': '200', 'grpc-status': '0', 'grpc-message': '', 'content-type': 'application/grpc' };
    assert.deepEqual(Object.fromEntries(decodeHeaders(block)), fields);
  });
  check('encodeInteger', 1, 'encodes the examples of RFC 7541, appendix C.1', ({ encodeInteger }) => {
    assert.deepEqual(
      [encodeInteger(10, 5), encodeInteger(1337, 5), encodeInteger(42, 8)],
      [hex('0a'), hex('1f9a0a'), hex('2a')],
    );
  });
  check('encodeHuffman', 2, 'encodes the examples of RFC 7541, appendix C.4', ({ encodeHuffman }) => {
    assert.deepEqual(encodeHuffman('www.example.com'), hex('f1e3c2e5f23a6ba0ab90f4ff'));
    assert.deepEqual(encodeHuffman('no-cache'), hex('a8eb10649cbf'));
  });
  check('encodePostOverHttp', 3, 'encodes two fields in two bytes', ({ encodePostOverHttp }) => {
    assert.deepEqual(encodePostOverHttp(), hex('8386'));
  });
});
