import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fileStore } from '../../../src/node.js';
import { Random } from '../../simulation/random.js';
import { startScript } from '../../support/child.js';
import { errorOf } from '../../support/errors.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const PROGRAM = new URL('../../support/saving-program.ts', import.meta.url);

test('a file store loads the bytes of the last save, and nothing before the first save', async () => {
  const path = join(temporaryFolder(), 'copy');
  const store = fileStore(path);
  expect(await store.load()).toBeUndefined();
  for (const bytes of [new Uint8Array([1, 2]), new Uint8Array(0), new Uint8Array(3_000_000).fill(7)]) {
    await store.save(bytes);
    expect(Buffer.compare((await fileStore(path).load()) ?? Buffer.from('none'), bytes)).toBe(0);
  }
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('a load waits for the saves of the same file that are in progress, and a later save replaces an earlier one', async () => {
  const path = join(temporaryFolder(), 'copy');
  const large = new Uint8Array(20_000_000).fill(7);
  const saving = fileStore(path).save(large);
  expect(Buffer.compare((await fileStore(path).load()) ?? Buffer.from('none'), large)).toBe(0);
  await saving;
  await Promise.all([fileStore(path).save(large), fileStore(path).save(new Uint8Array([1]))]);
  expect(await fileStore(path).load()).toEqual(Buffer.from([1]));
});

test('the file of a file store is whole and has the last complete save, whenever the process is killed', async () => {
  const [random, path] = [new Random(1), join(temporaryFolder(), 'copy')];
  const store = fileStore(path);
  let first = 1;
  for (let life = 0; life < 15; life += 1) {
    const child = startScript(PROGRAM, [path, `${first}`]);
    let last = 0;
    for (let lines = random.between(1, 20); lines > 0; lines -= 1) last = Number(await child.line());
    const killsAt = performance.now() + random.fraction() * 3;
    while (performance.now() < killsAt);
    child.process.kill('SIGKILL');
    last = Math.max(last, ...(await child.rest()).map(Number));
    const bytes = Uint8Array.from((await store.load()) ?? []);
    const numbers = new Set(new Uint32Array(bytes.buffer));
    const [saved = 0] = numbers;
    expect([numbers.size, bytes.length / 4]).toEqual([1, 1 + ((saved * 7_919) % 50_000)]);
    expect(saved).toBeGreaterThanOrEqual(last);
    first = saved + 1;
  }
});

test('`load` removes the old partial files that killed processes have left, and nothing else', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'copy');
  await fileStore(path).save(new Uint8Array([1]));
  for (const name of ['copy.0a.part', 'copy.0b.part', 'copy.part', 'other.0a.part', 'copy.x.part'])
    writeFileSync(join(folder, name), 'x');
  for (const name of readdirSync(folder)) if (name !== 'copy.0b.part') utimesSync(join(folder, name), 1, 1);
  expect(await fileStore(path).load()).toHaveLength(1);
  expect(readdirSync(folder).toSorted()).toEqual(['copy', 'copy.0b.part', 'copy.part', 'copy.x.part', 'other.0a.part']);
});

test('`save` removes the partial files that became old after the load, because a service may run for months', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'copy');
  const store = fileStore(path);
  writeFileSync(join(folder, 'copy.0a.part'), 'left by a killed process');
  await store.load();
  expect(readdirSync(folder)).toEqual(['copy.0a.part']);
  utimesSync(join(folder, 'copy.0a.part'), 1, 1);
  writeFileSync(join(folder, 'copy.0b.part'), 'may still be written');
  await store.save(new Uint8Array([1]));
  expect(readdirSync(folder).toSorted()).toEqual(['copy', 'copy.0b.part']);
});

test('a save fails and leaves no partial file when the folder does not exist or the path is not a file', async () => {
  const folder = temporaryFolder();
  await expect(fileStore(join(folder, 'none', 'copy')).save(new Uint8Array(1))).rejects.toMatchObject({
    code: 'ENOENT',
  });
  mkdirSync(join(folder, 'sub'));
  expect(await errorOf(fileStore(join(folder, 'sub')).save(new Uint8Array(1)))).toMatchObject({
    reason: 'InvalidInput',
  });
  expect(readdirSync(folder)).toEqual(['sub']);
  for (const path of ['', 'a\0b', 5 as never])
    expect(await errorOf(() => fileStore(path))).toMatchObject({ reason: 'InvalidInput' });
});

test('a save replaces the target of a symbolic link', async () => {
  const folder = temporaryFolder();
  const [target, link] = [join(folder, 'target'), join(folder, 'link')];
  await fileStore(target).save(new Uint8Array([1]));
  symlinkSync(target, link);
  await fileStore(link).save(new Uint8Array([2]));
  expect(await fileStore(target).load()).toEqual(Buffer.from([2]));
  expect(existsSync(link)).toBe(true);
});
