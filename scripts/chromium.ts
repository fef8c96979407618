import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

/** The paths of Chromium on Debian and other systems. */
const CHROMIUMS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
/** Command-line options that stop the browser from contacting its vendor. */
const OFFLINE = [
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export type Browser = Awaited<ReturnType<typeof chromium.launch>>;

/** Returns the path in CHROMIUM_BIN or the path of an installed Chromium. Returns undefined if neither exists. */
export function findChromium(): string | undefined {
  return [process.env.CHROMIUM_BIN, ...CHROMIUMS].find((file) => file !== undefined && existsSync(file));
}

/** Starts a headless Chromium that contacts only the pages that it opens. */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: [...OFFLINE, '--no-sandbox', '--disable-gpu'] });
}
