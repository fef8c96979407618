import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ConnectionDecoder } from '../../src/inspect/connection-decoder.js';
import { type DecodedFrame, messagesIn } from '../../src/inspect/frames.js';
import { concatBytes } from '../../src/runtime/bytes.js';

const PUT_BODY = '{"key":"Zm9v","value":"YmFy"}';
const PUT = `POST /v3/kv/put HTTP/1.1\r\nAuthorization: secret-token\r\nContent-Length: ${PUT_BODY.length}\r\n\r\n${PUT_BODY}`;
const PUT_BODY_OF_ANSWER = '{"header":{"revision":"5"}}';
const ANSWER = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${PUT_BODY_OF_ANSWER.length.toString(16)}\r\n${PUT_BODY_OF_ANSWER}\r\n0\r\n\r\n`;
const LOGIN_BODY = '{"name":"root","password":"very-secret"}';
const LOGIN = `POST /v3/auth/authenticate HTTP/1.1\r\nContent-Length: ${LOGIN_BODY.length}\r\n\r\n${LOGIN_BODY}`;
const LOGIN_ANSWER_BODY = '{"token":"a-token.123"}';
const LOGIN_ANSWER = `HTTP/1.1 200 OK\r\nContent-Length: ${LOGIN_ANSWER_BODY.length}\r\n\r\n${LOGIN_ANSWER_BODY}`;
const REFUSED_BODY = '{"code":5,"message":"etcdserver: requested lease not found"}';
const REFUSED = `HTTP/1.1 404 Not Found\r\nContent-Length: ${REFUSED_BODY.length}\r\n\r\n${REFUSED_BODY}`;
const WATCH_BODY = '{"create_request":{"key":"Zm9v"}}';
const WATCH = `POST /v3/watch HTTP/1.1\r\nContent-Length: ${WATCH_BODY.length}\r\n\r\n${WATCH_BODY}`;
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const WATCH_ANSWER = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('{"result":{"header":{},"created":true}}\n')}${chunk('{"result":{"header":{"revision":"7"},"events":[]}}\n')}`;

type Piece = readonly ['sent' | 'received', string];

/** Decodes the texts of a connection, each of them in pieces of this many bytes. */
function decode(texts: readonly Piece[], pieceBytes: number): (DecodedFrame & { readonly direction: string })[] {
  const frames: (DecodedFrame & { readonly direction: string })[] = [];
  const decoder = new ConnectionDecoder((direction, frame) => void frames.push({ direction, ...frame }));
  for (const [direction, text] of texts) {
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; at += pieceBytes) decoder.push(direction, bytes.subarray(at, at + pieceBytes));
  }
  return frames;
}

test('ConnectionDecoder finds the messages of the JSON gateway, without passwords and tokens, in pieces of any size', () => {
  const texts: readonly Piece[] = [
    ['sent', PUT],
    ['received', ANSWER],
    ['sent', LOGIN],
    ['received', LOGIN_ANSWER],
    ['sent', PUT],
    ['received', REFUSED],
    ['sent', WATCH],
    ['received', WATCH_ANSWER],
  ];
  fc.assert(
    fc.property(fc.integer({ min: 5, max: 200 }), (pieceBytes) => {
      const frames = decode(texts, pieceBytes);
      const types = frames.flatMap((frame) => messagesIn(frame).map(({ typeName }) => typeName.replace(/^.*\./, '')));
      expect(types).toEqual([
        ...['PutRequest', 'PutResponse', 'AuthenticateRequest', 'AuthenticateResponse', 'PutRequest'],
        ...['WatchRequest', 'WatchResponse', 'WatchResponse'],
      ]);
      const problems = frames.flatMap(({ detail }) => (detail.kind === 'http1' ? [detail.problem] : []));
      expect(problems.filter((problem) => problem !== '')).toEqual(['etcdserver: requested lease not found']);
      const shown = new TextDecoder().decode(concatBytes(...frames.map(({ bytes }) => bytes)));
      expect(shown).not.toMatch(/secret|a-token/);
      // The end of the last chunk of the watch waits for the next chunk.
      const lineEnd = 2;
      expect(shown).toHaveLength(texts.reduce((sum, [, text]) => sum + text.length, -lineEnd));
    }),
  );
});

test('ConnectionDecoder ignores the bytes after malformed HTTP/1.1', () => {
  expect(decode([['sent', `${PUT}nonsense\r\n\r\n${PUT}`]], 1_000)).toHaveLength(1);
  const answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n';
  expect(
    decode(
      [
        ['sent', PUT],
        ['received', answer],
      ],
      9,
    ),
  ).toHaveLength(1);
});
