import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * An HTTP proxy in front of one member. The proxy also serves the files of a page, so that the page can send requests
 * to its own origin.
 */
export interface ResettingProxy {
  readonly endpoint: string;
  /** The number of requests for each path. */
  readonly requests: ReadonlyMap<string, number>;
  /**
   * Makes the proxy lose the response to the next POST whose body contains this text and whose connection has carried
   * an earlier request. The proxy forwards the request and receives the response. Then the proxy runs `meanwhile` and
   * resets the connection. Resolves when `meanwhile` has finished.
   */
  resetAnswer(text: string, meanwhile: () => Promise<unknown>): Promise<void>;
}

export async function resettingProxy(
  target: string,
  page: ReadonlyMap<string, Page> = new Map(),
): Promise<ResettingProxy> {
  const requests = new Map<string, number>();
  const served = new WeakSet<Socket>();
  let armed: ((body: string) => (() => Promise<unknown>) | undefined) | undefined;
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { url = '/', method, headers, socket } = incoming;
    requests.set(url, (requests.get(url) ?? 0) + 1);
    const own = page.get(url);
    if (own !== undefined) return void response.setHeader('content-type', own.type).end(own.content);
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const isReused = served.has(socket);
    served.add(socket);
    const meanwhile = isReused ? armed?.(body.toString()) : undefined;
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(target + url, { method, headers }, resolve)
        .on('error', reject)
        .end(body);
    });
    if (meanwhile === undefined) {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      return void answer.pipe(response);
    }
    for await (const _ of answer);
    await meanwhile();
    socket.resetAndDestroy();
  };
  const server = createServer((incoming, response) => void serve(incoming, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    resetAnswer: (text, meanwhile) =>
      new Promise((resolve) => {
        armed = (body) => {
          if (!body.includes(text)) return undefined;
          armed = undefined;
          return async () => {
            await meanwhile();
            resolve();
          };
        };
      }),
  };
}

/** A file that the proxy itself serves. */
export interface Page {
  readonly type: string;
  readonly content: string | Uint8Array;
}
