import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, launchChromium } from '../chromium.js';
import type { CheckResult, Conformance } from './conformance.js';

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
    return new BrowserPage(await launchChromium(executablePath), server);
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
