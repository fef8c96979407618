import { pack } from './pack.js';

// Packs what is published into the folder given:
//   npx tsx scripts/pack-release.ts FOLDER

console.log(pack(process.argv[2] ?? '.'));
