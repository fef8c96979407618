import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { throughDoors } from '../../../scripts/build/through-doors.js';
import { BODY_STYLE, LIGHT_SCRIPT, THEME } from '../../cli/src/index.js';

// Builds packages/learn/playground.html, one self-contained file. Run this script with:
//   npm run docs:playground

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export const PLAYGROUND = here('../playground.html');
/** The compressed program is in this element of the page. */
const PROGRAM = /<script type="text\/plain" id="program">([^<]*)<\/script>/;

/** Unpacks the program in the browser and runs it. */
const LOADER = `
(async () => {
  try {
    const packed = Uint8Array.from(atob(document.getElementById('program').textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
    const script = document.createElement('script');
    script.textContent = await new Response(stream).text();
    document.body.append(script);
  } catch (error) {
    const banner = document.getElementById('banner');
    banner.hidden = false;
    banner.textContent = 'The playground did not start. It needs a browser of 2023 or later: ' + error;
  }
})();
`;

/** Returns the program of the page, for all browsers that have DecompressionStream. */
async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [here('playground/page/page.ts')],
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    platform: 'browser',
    legalComments: 'none',
    write: false,
    plugins: [
      throughDoors(here('../../..')),
      {
        name: 'no-host',
        setup: ({ onResolve }) => {
          onResolve({ filter: /\/host\/node\.js$/ }, () => ({ path: here('../../../src/host/none.ts') }));
        },
      },
    ],
  });
  return outputFiles[0]?.text ?? '';
}

function pageOf(program: string): string {
  const packed = gzipSync(program, { level: 9 }).toString('base64');
  const style = THEME + BODY_STYLE + readFileSync(here('playground/page/style.css'), 'utf8');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>etcdwire playground</title>
<style>${style}</style>
<body>
${readFileSync(here('playground/page/page.html'), 'utf8')}
<script type="text/plain" id="program">${packed}</script>
<script>${LIGHT_SCRIPT}${LOADER}</script>
</body>
</html>
`;
}

/** Returns the page with its program unpacked, because versions of Node.js pack it differently. */
function unpacked(page: string): string {
  return page.replace(PROGRAM, (_, packed: string) => gunzipSync(Buffer.from(packed, 'base64')).toString());
}

/** Writes the page, unless it is current. */
export async function writePlayground(): Promise<void> {
  const page = pageOf(await bundle());
  if (!existsSync(PLAYGROUND) || unpacked(readFileSync(PLAYGROUND, 'utf8')) !== unpacked(page))
    writeFileSync(PLAYGROUND, page);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writePlayground();
