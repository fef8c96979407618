import { fileStore } from '../../src/node.js';

// Saves one copy after the other in a file, and prints the number of each complete save. A copy consists of 32-bit
// numbers, and each of them is the number of the save.

const [path = '', first = ''] = process.argv.slice(2);
const store = fileStore(path);
for (let save = Number(first); ; save += 1) {
  await store.save(new Uint8Array(new Uint32Array(1 + ((save * 7_919) % 50_000)).fill(save).buffer));
  process.stdout.write(`${save}\n`);
}
