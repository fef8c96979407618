import { readFileSync, writeFileSync } from 'node:fs';
import { withScenes } from './wire/page.js';
import { play } from './wire/scenario.js';

// Plays two clients and one lock against a new etcd, and writes what went over the wire into docs/wire.md:
//   npm run docs:wire

const file = new URL('../docs/wire.md', import.meta.url);
const run = await play();
if (run === undefined) throw new Error('needs an etcd that it can start itself: unset ETCD_ENDPOINTS');
writeFileSync(file, withScenes(readFileSync(file, 'utf8'), run.scenes));
console.log(`docs/wire.md has the bytes of etcd ${run.version}`);
