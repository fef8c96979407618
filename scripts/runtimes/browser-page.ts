import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chromium } from 'playwright-core';
import type { CheckResult, Conformance } from './conformance.js';

/** Debian's, and those of other systems. */
const CHROMIUMS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
/** What would look for the makers of the browser. */
const QUIET = [
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

type Browser = Awaited<ReturnType<typeof chromium.launch>>;

/** Undefined where there is none on this machine. */
export function findChromium(): string | undefined {
  return [process.env.CHROMIUM_BIN, ...CHROMIUMS].find((file) => file !== undefined && existsSync(file));
}

/** A page of headless Chromium, of an origin of its own, with a bundle in it. */
export class BrowserPage implements AsyncDisposable {
  readonly version: string;
  readonly #browser: Browser;
  readonly #server: Server;

  private constructor(browser: Browser, server: Server) {
    this.version = browser.version();
    this.#browser = browser;
    this.#server = server;
  }

  static async open(executablePath: string, bundle: string): Promise<BrowserPage> {
    const script = readFileSync(bundle);
    const server = createServer((request, response) => {
      if (request.url === '/bundle.mjs') response.setHeader('content-type', 'text/javascript').end(script);
      else response.setHeader('content-type', 'text/html').end('<script type="module" src="/bundle.mjs"></script>');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const args = [...QUIET, '--no-sandbox', '--disable-gpu'];
    return new BrowserPage(await chromium.launch({ executablePath, args }), server);
  }

  async conformance(what: Conformance): Promise<CheckResult[]> {
    const page = await this.#browser.newPage();
    await page.goto(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`);
    await page.waitForFunction('globalThis.conformance');
    return (await page.evaluate(`conformance(${JSON.stringify(what)})`)) as CheckResult[];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
