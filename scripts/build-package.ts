import { rmSync } from 'node:fs';
import { buildCli, buildMigrate } from './build/packages.js';

// Writes dist/ of a package in packages/. Each package runs this script as its script `build`:
//   npm run build -w etcdwire-cli

const BUILDS = { cli: buildCli, migrate: buildMigrate } as const;

const name = process.argv[2] as keyof typeof BUILDS;
const folder = `packages/${name}/dist`;
rmSync(new URL(`../${folder}`, import.meta.url), { recursive: true, force: true });
await BUILDS[name](folder);
