import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

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

export type Browser = Awaited<ReturnType<typeof chromium.launch>>;

/** Undefined where there is none on this machine. */
export function findChromium(): string | undefined {
  return [process.env.CHROMIUM_BIN, ...CHROMIUMS].find((file) => file !== undefined && existsSync(file));
}

/** Headless, and without a word to anybody but the pages that it is sent to. */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: [...QUIET, '--no-sandbox', '--disable-gpu'] });
}
