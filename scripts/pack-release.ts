import { pack } from './pack.js';

// Packs the package for publication into a folder:
//   npx tsx scripts/pack-release.ts FOLDER

console.log(pack(process.argv[2] ?? '.'));
