import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** Resolves with the body as text, or with undefined as soon as more than `maxBytes` have arrived. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      else resolve(undefined);
    });
    request.on('end', () => resolve(Buffer.concat(chunks).toString()));
    // If the client disconnects in the middle of the body, no answer is needed. The promise then stays pending.
    request.on('error', () => {});
  });
}

/** Sends a line of text, as Go's `http.Error` does. */
export function sendText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: OutgoingHttpHeaders = {},
): void {
  const body = `${text}\n`;
  response
    .writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'x-content-type-options': 'nosniff',
      ...headers,
      'content-length': Buffer.byteLength(body),
    })
    .end(body);
}
