import { readFileSync, writeFileSync } from 'node:fs';
import { withScenes } from './wire/page.js';
import { play } from './wire/scenario.js';

// Runs two clients that contend for one lock on a new etcd server, and writes the bytes of their frames into
// docs/wire.md. Run this script with:
//   npm run docs:wire

const file = new URL('../docs/wire.md', import.meta.url);
const run = await play();
if (run === undefined) throw new Error('docs:wire must start etcd itself; unset ETCD_ENDPOINTS');
writeFileSync(file, withScenes(readFileSync(file, 'utf8'), run.scenes));
console.log(`docs/wire.md shows the bytes of etcd ${run.version}`);
