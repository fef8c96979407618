import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, monotonicMs, orAborted, settledWithin } from '../../../../src/internal.js';
import { CliError } from '../exit-code.js';
import type { Io } from '../io.js';
import { type FaultRules, parseFault } from '../proxy/fault-rules.js';
import { liveParts, tracePage } from './page.js';
import type { Recordings } from './recording.js';
import type { Trace, Traces } from './trace.js';

const LOOPBACK = '127.0.0.1';
const SECRET_BYTES = 18;
/** Minimum time in milliseconds between two reports of changes to the open pages. */
const CHANGE_MS = 200;
/** Minimum time between two such reports, as a multiple of the time that a rendering takes. */
const RENDER_FACTOR = 5;
/** How long, in milliseconds, the program waits at the end of the command for open pages to fetch the last state. */
const LAST_FETCH_MS = 2_000;
/** Maximum number of bytes in the body of a request. */
const MAX_BODY_BYTES = 65_536;

/**
 * Serves the page of a trace on loopback while the command runs. The URL contains a secret, because a trace contains
 * keys and values, and any user of the machine can connect to the port.
 */
export class LivePage {
  readonly url: string;
  readonly #server: ReturnType<typeof createServer>;
  readonly #recordings: Recordings;
  /** The faults of a proxy, which the page shows and changes. */
  readonly #rules: FaultRules | undefined;
  /** The responses that report changes, one for each open page. */
  readonly #listeners = new Set<ServerResponse>();
  #sentVersion = -1;
  #renderMs = 0;
  #stopTimer: () => void = () => {};
  /** The HTML of the changing parts of the page, and the version of the trace that the HTML shows. */
  #rendered: { readonly version: number; readonly html: string } | undefined;
  /** Resolves when a browser has fetched the page. */
  readonly #opened: Promise<void>;
  #wasOpened = false;
  #onOpened: () => void = () => {};
  /** Runs after a page has fetched the content at the end of the command. */
  #onFetched: () => void = () => {};

  private constructor(server: ReturnType<typeof createServer>, recordings: Recordings, rules: FaultRules | undefined) {
    this.#server = server;
    this.#rules = rules;
    this.#recordings = recordings;
    this.#opened = new Promise((resolve) => {
      this.#onOpened = resolve;
    });
    const { port } = server.address() as AddressInfo;
    const path = `/${randomBytes(SECRET_BYTES).toString('base64url')}/`;
    this.url = `http://${LOOPBACK}:${port}${path}`;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      // Refuse other host names. With a name that resolves to this machine, a foreign page could read the trace.
      const isAllowed = request.headers.host === `${LOOPBACK}:${port}` && request.url?.startsWith(path);
      const name = isAllowed ? request.url?.slice(path.length) : undefined;
      if (request.method === 'POST') return void this.#setFaults(name, request, response);
      try {
        this.#answer(name, response);
      } catch (error) {
        // The clients choose what the page shows. A defect in showing it must not end the command.
        if (!response.headersSent) response.writeHead(500, TEXT);
        response.end(`cannot show the trace: ${(error as Error).name}`);
      }
    });
    this.#tick();
  }

  /** With `rules`, the page shows and changes the faults of a proxy. */
  static async start(recordings: Recordings, rules?: FaultRules): Promise<LivePage> {
    const server = createServer();
    await once(server.listen(0, LOOPBACK), 'listening');
    return new LivePage(server, recordings, rules);
  }

  get #traces(): Traces {
    return this.#recordings.map(({ liveTrace }) => liveTrace) as [Trace, ...Trace[]];
  }

  /** A number that grows when a trace or a fault changes. */
  get #version(): number {
    return this.#recordings.reduce((sum, { version }) => sum + version, this.#rules?.version ?? 0);
  }

  /** At a terminal, waits until a browser has fetched the page, because the user needs time to open it. */
  async untilOpened({ stderr, interrupted }: Io): Promise<void> {
    if (this.#wasOpened || !stderr.isTTY || interrupted.aborted) return;
    stderr.write('etcdwire: open the page, or press Ctrl-C\n');
    await orAborted(this.#opened, interrupted).catch(() => {});
  }

  /** Shows the end of the command in all open pages, and stops the server. */
  async stop(): Promise<void> {
    this.#stopTimer();
    if (this.#listeners.size > 0) {
      let left = this.#listeners.size;
      const fetched = new Promise<void>((resolve) => {
        this.#onFetched = () => {
          left -= 1;
          if (left === 0) resolve();
        };
      });
      for (const listener of this.#listeners) listener.end('data: end\n\n');
      await settledWithin(LAST_FETCH_MS, fetched);
    }
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #answer(path: string | undefined, response: ServerResponse): void {
    const send = (type: string, body: string): void => {
      response.writeHead(200, { 'content-type': `${type}; charset=utf-8`, 'cache-control': 'no-store' }).end(body);
    };
    switch (path) {
      case '':
        send('text/html', tracePage(this.#traces, { live: true, faults: this.#rules?.all }));
        this.#wasOpened = true;
        response.once('finish', this.#onOpened);
        return;
      case 'content?changed':
      case 'content?end':
        send('text/html', this.#render());
        if (path === 'content?end') response.once('finish', this.#onFetched);
        return;
      case 'changes':
        response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
        response.once('close', () => this.#listeners.delete(response));
        this.#listeners.add(response);
        response.write('data: changed\n\n');
        return;
      default:
        response.writeHead(404).end();
    }
  }

  /** Replaces the faults by those in the body of the request, one in each line. */
  async #setFaults(path: string | undefined, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const rules = this.#rules;
    if (path !== 'faults' || rules === undefined) return void response.writeHead(404).end();
    try {
      const text = await bodyOf(request);
      if (text === undefined)
        return void response.writeHead(413, { ...TEXT, connection: 'close' }).end(`at most ${MAX_BODY_BYTES} bytes`);
      const lines = text.split('\n').filter((line) => line !== '');
      // A fault that stays keeps its count.
      rules.set(lines.map((line) => rules.all.find((fault) => fault.text === line) ?? parseFault(line, 'fault')));
      response.writeHead(204).end();
    } catch (error) {
      const message = error instanceof CliError ? error.message : 'the request has ended too early';
      response.writeHead(400, TEXT).end(message);
    }
  }

  /** Renders the changing parts of the page, once for each version. */
  #render(): string {
    const version = this.#version;
    if (this.#rendered?.version !== version) {
      const startMs = monotonicMs();
      this.#rendered = { version, html: liveParts(this.#traces, this.#rules?.all) };
      this.#renderMs = monotonicMs() - startMs;
    }
    return this.#rendered.html;
  }

  /** Reports a change, if there is one, and checks again later. */
  #tick(): void {
    const version = this.#version;
    if (version !== this.#sentVersion) for (const listener of this.#listeners) listener.write('data: changed\n\n');
    this.#sentVersion = version;
    this.#stopTimer = after(Math.max(CHANGE_MS, RENDER_FACTOR * this.#renderMs), () => this.#tick(), 'background');
  }
}

const TEXT = { 'content-type': 'text/plain; charset=utf-8' } as const;

/** Resolves with the body of a request. Resolves with undefined as soon as the body is too long. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  request.setEncoding('utf8');
  let text = '';
  for await (const chunk of request) {
    text += chunk;
    if (text.length > MAX_BODY_BYTES) return undefined;
  }
  return text;
}
