import { pack, packProgram } from './pack.js';

// Packs the packages for publication into a folder:
//   npx tsx scripts/pack-release.ts FOLDER

const folder = process.argv[2] ?? '.';
console.log(pack(folder));
console.log(await packProgram('cli', folder));
console.log(await packProgram('migrate', folder));
