import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Client, op, prefix } from '../../../src/index.js';
import { Random } from '../../../test/simulation/random.js';
import { type CliResult, cli, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { changeSome, contentOf } from '../../../test/support/ranges.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { Progress } from '../src/progress.js';

interface Exported {
  readonly revision: string;
  readonly keys: number;
}

/** Exports the keys under `start` to a new file. */
async function exported(start: string): Promise<Exported & { readonly file: string }> {
  const file = join(temporaryFolder(), 'keys.jsonl');
  const { stdout, stderr } = await cli(['export', start, '--prefix', '--file', file]);
  if (stdout === '') throw new Error(stderr);
  return { ...JSON.parse(stdout), file };
}

/** Fills a range with keys and values that are not text, or that are special in JSON or on a terminal. */
async function fillOddly(etcd: Client, start: string): Promise<void> {
  const values = ['', 'text', '"\\\n\u2028\u009b\ufeff', Uint8Array.of(0xff), Uint8Array.of(0xed, 0xa0, 0x80), '\0'];
  for (const [index, value] of values.entries()) await etcd.put(`${start}${index}`, value);
  for (const last of [0, 0x0a, 0x80, 0xff]) await etcd.put(Buffer.concat([Buffer.from(start), Buffer.of(last)]), 'x');
}

function importOf(file: string, ...args: readonly string[]): Promise<CliResult> {
  return cli(['import', '--file', file, ...args]);
}

describe('etcdwire export', () => {
  it.each([1, 2])(
    'writes exactly the keys of the revision that it names while clients write (seed %i)',
    async (seed) => {
      const [etcd, start] = [openClient(), `${unique('export')}/`];
      let isWriting = true;
      const writers = [1, 2].map(async (stream) => {
        const own = new Random(seed, stream);
        while (isWriting) await changeSome(openClient(), start, own);
      });
      const fill = Array.from({ length: 100 }, (_, index) => op.put(`${start}fill/${index}`, 'x'.repeat(10_000)));
      await etcd.txn({ then: fill });
      const { file, revision, keys } = await exported(start);
      isWriting = false;
      await Promise.all(writers);
      const before = await contentOf(etcd, prefix(start), { revision: BigInt(revision) });
      expect(keys).toBe(before.length);
      await etcd.delete(prefix(start));
      expect(await importOf(file)).toMatchObject({ code: 0 });
      expect(await contentOf(etcd, prefix(start))).toEqual(before);
    },
  );

  it('writes one line of JSON for each key, in text where possible, and a last line with the checksum of the other lines', async () => {
    const [etcd, start] = [openClient(), `${unique('export')}/`];
    const { id } = await etcd.lease.grant({ ttl: 600 });
    const first = await etcd.put(`${start}a`, 'blue\u009b', { lease: id });
    const { header } = await etcd.put(`${start}b`, Uint8Array.of(0xff, 0));
    const { stdout, stderr } = await cli(['export', start, '--prefix', '--rev', String(header.revision)]);
    const lines = stdout.split('\n');
    expect(lines.slice(0, -2)).toEqual([
      `{"etcdwire_export":1,"revision":"${header.revision}","range":{"key":"${start}","range_end":"${start.replace('/', '0')}"}}`,
      `{"key":"${start}a","value":"blue\\u009b","mod_revision":"${first.header.revision}","lease":"${id}"}`,
      `{"key":"${start}b","value_base64":"/wA=","mod_revision":"${header.revision}"}`,
    ]);
    const checked = `${lines.slice(0, 3).join('\n')}\n`;
    expect(JSON.parse(lines[3] ?? '')).toEqual({
      count: 2,
      sha256: createHash('sha256').update(checked).digest('hex'),
    });
    expect(stderr).toBe(`etcdwire: exported 2 keys at revision ${header.revision}\n`);
  });

  it('of a missing key writes no keys, and import accepts the file', async () => {
    const { file, keys } = await exported(unique());
    expect(keys).toBe(0);
    expect(await importOf(file)).toMatchObject({ code: 0, stdout: expect.stringContaining('"written":0') });
  });

  it.each(['SIGINT', 'SIGKILL'] as const)('leaves no file with the given name when %s ends it', async (signal) => {
    const [etcd, start, folder] = [openClient(), `${unique('export')}/`, temporaryFolder()];
    for (let at = 0; at < 30; at += 1)
      await etcd.txn({
        then: Array.from({ length: 100 }, (_, index) => op.put(`${start}${at}/${index}`, 'x'.repeat(9_000))),
      });
    const file = join(folder, 'keys.jsonl');
    const running = new RunningCli(['export', start, '--prefix', '--file', file]);
    await expect.poll(() => readdirSync(folder), { interval: 1 }).not.toEqual([]);
    running.process.kill(signal);
    const { code } = await running.done;
    // A process that had already renamed its file would make this test useless.
    expect(code).toBe(signal === 'SIGINT' ? 130 : null);
    expect(existsSync(file)).toBe(false);
    if (signal === 'SIGINT') expect(readdirSync(folder)).toEqual([]);
  });

  it('ends with exit code 73 when it cannot write the file, and keeps an existing file when the export fails', async () => {
    const folder = temporaryFolder();
    expect(await cli(['export', 'a', '--file', join(folder, 'missing', 'x')])).toMatchObject({ code: 73 });
    const file = join(folder, 'keys.jsonl');
    writeFileSync(file, 'old');
    expect(await cli(['export', 'a', '--file', file, '--rev', '999999999'])).toMatchObject({ code: 1 });
    expect(readFileSync(file, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['keys.jsonl']);
  });
});

describe('etcdwire import', () => {
  it('restores keys and values that are not text, from a file and from a pipe', async () => {
    const [etcd, start] = [openClient(), `${unique('import')}/`];
    await fillOddly(etcd, start);
    const before = await contentOf(etcd, prefix(start));
    const { file } = await exported(start);
    for (const input of ['file', 'pipe']) {
      await etcd.delete(prefix(start));
      const result = input === 'file' ? await importOf(file) : await cli(['import'], { stdin: readFileSync(file) });
      expect(result).toMatchObject({ code: 0 });
      expect(await contentOf(etcd, prefix(start))).toEqual(before);
    }
  });

  it('refuses a file that ends early at any place or that was changed, and writes nothing', async () => {
    const [etcd, start, random] = [openClient(), `${unique('import')}/`, new Random(7)];
    await fillOddly(etcd, start);
    const { file } = await exported(start);
    await etcd.delete(prefix(start));
    const bytes = readFileSync(file);
    const lines = bytes.toString().split('\n');
    const damaged: [string, Uint8Array][] = [
      ['empty', Buffer.alloc(0)],
      ['without the last line feed', bytes.subarray(0, -1)],
      ['without the last line', Buffer.from(`${lines.slice(0, -2).join('\n')}\n`)],
      ['without a key', Buffer.from(lines.toSpliced(2, 1).join('\n'))],
      ['with keys in another order', Buffer.from(lines.toSpliced(1, 2, lines[2] ?? '', lines[1] ?? '').join('\n'))],
      ['with a line after the end', Buffer.concat([bytes, Buffer.from('{}\n')])],
      ['with another version', Buffer.from(bytes.toString().replace('"etcdwire_export":1', '"etcdwire_export":2'))],
      ['with another value', Buffer.from(bytes.toString().replace('"text"', '"test"'))],
      ['with bytes that are not text', Buffer.concat([bytes.subarray(0, 200), Buffer.of(0xff), bytes.subarray(200)])],
    ];
    for (let cut = 0; cut < 8; cut += 1) {
      const length = random.below(bytes.length);
      damaged.push([`cut after ${length} bytes`, bytes.subarray(0, length)]);
    }
    const folder = temporaryFolder();
    for (const [what, content] of damaged) {
      const path = join(folder, 'damaged.jsonl');
      writeFileSync(path, content);
      expect.soft(await importOf(path), what).toMatchObject({ code: 65, stdout: '' });
    }
    expect(await cli(['import'], { stdin: bytes.subarray(0, 300) })).toMatchObject({ code: 65 });
    expect(await contentOf(etcd, prefix(start))).toEqual([]);
  });

  it('writes, skips or refuses existing keys as `--existing` says, and gives no key a lease', async () => {
    const [etcd, start] = [openClient(), `${unique('import')}/`];
    const { id } = await etcd.lease.grant({ ttl: 600 });
    for (const name of ['equal', 'gone', 'leased', 'other'])
      await etcd.put(`${start}${name}`, name, name === 'leased' ? { lease: id } : {});
    const { file } = await exported(start);
    await etcd.delete(`${start}gone`);
    await etcd.put(`${start}other`, 'changed');
    const { header } = await etcd.put(`${start}extra`, 'x');
    expect(await importOf(file, '--existing', 'refuse')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^etcdwire: the store has 2 keys .* nothing was written\n$/),
    });
    expect((await etcd.range(prefix(start), { minModRevision: header.revision + 1n })).kvs).toEqual([]);
    const skipped = await importOf(file, '--existing', 'skip-equal');
    expect(JSON.parse(skipped.stdout)).toMatchObject({ keys: 4, written: 3, skipped: 1, leases_dropped: 1 });
    const { kvs } = await etcd.range(prefix(start));
    expect(kvs.map((kv) => [kv.text(), kv.lease])).toEqual(
      ['equal', 'x', 'gone', 'leased', 'other'].map((text) => [text, 0n]),
    );
    await etcd.delete(`${start}gone`);
    const refused = await importOf(file, '--existing', 'refuse');
    expect(JSON.parse(refused.stdout)).toMatchObject({ written: 1, skipped: 3 });
    expect(JSON.parse((await importOf(file)).stdout)).toMatchObject({ written: 4, skipped: 0 });
  });

  it.each(['overwrite', 'skip-equal', 'refuse'])(
    'can be run again with `--existing %s` after SIGKILL',
    async (existing) => {
      const [etcd, start] = [openClient(), `${unique('import')}/`];
      for (let at = 0; at < 40; at += 1)
        await etcd.txn({
          then: Array.from({ length: 100 }, (_, index) => op.put(`${start}${at}/${index}`, `${at}`.repeat(500))),
        });
      const before = await contentOf(etcd, prefix(start));
      const { file } = await exported(start);
      await etcd.delete(prefix(start));
      const watch = etcd.watch(prefix(start), { only: 'put' });
      await watch.created();
      const running = new RunningCli(['import', '--file', file, '--existing', existing]);
      let left = 500;
      for await (const _ of watch) if (--left <= 0) break;
      running.process.kill('SIGKILL');
      await running.done;
      const { stdout } = await importOf(file, '--existing', existing);
      const { written, skipped } = JSON.parse(stdout);
      expect(written + skipped).toBe(4_000);
      if (existing !== 'overwrite') expect(skipped).toBeGreaterThanOrEqual(500);
      expect(await contentOf(etcd, prefix(start))).toEqual(before);
    },
  );

  it('writes a value that just fits into a request, and reports how many keys it has written when the server refuses a value', async () => {
    const [source, target] = [await ownEtcd({ args: ['--max-request-bytes=3000000'] }), await ownEtcd()];
    const etcd = openClient({ endpoints: source.endpoints, maxRequestBytes: 3_000_000 });
    const file = join(temporaryFolder(), 'large.jsonl');
    const [from, to] = [source, target].map(({ endpoints }) => ({
      environment: { ETCDCTL_ENDPOINTS: endpoints.join() },
    }));
    await etcd.put('a/1', 'small');
    await etcd.put('a/2', 'x'.repeat(1_572_864 - 100));
    await cli(['export', 'a/', '--prefix', '--file', file], from);
    expect(await cli(['import', '--file', file], to)).toMatchObject({ code: 0 });
    await etcd.put('a/3', 'x'.repeat(2_000_000));
    await cli(['export', 'a/', '--prefix', '--file', file], from);
    expect(await cli(['import', '--file', file, '--existing', 'skip-equal'], to)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('2 of 3 keys are in the store'),
    });
  });

  it('ends with exit code 130 when SIGINT arrives while it reads standard input', async () => {
    const running = new RunningCli(['import']);
    await new Promise<void>((resolve) => running.process.stdin.write('x'.repeat(2_000_000), () => resolve()));
    running.process.kill('SIGINT');
    expect(await running.done).toMatchObject({ code: 130, stderr: '' });
  });
});

describe('the progress of a command', () => {
  it('is one line on a terminal, which the command erases before it prints another message', () => {
    const writes: string[] = [];
    const progress = new Progress({ stderr: { isTTY: true, write: (data) => writes.push(String(data)) } });
    progress.show(() => '1 key');
    progress.show(() => 'too soon for a second line');
    progress.stderr.write('a message\n');
    progress.show(() => '2 keys');
    progress.erase();
    progress.erase();
    expect(writes).toEqual(['\r\x1b[K1 key', '\r\x1b[K', 'a message\n', '\r\x1b[K2 keys', '\r\x1b[K']);
  });

  it('does not appear in a log when the command is short', () => {
    const writes: string[] = [];
    const progress = new Progress({ stderr: { write: (data) => writes.push(String(data)) } });
    progress.show(() => '1 key');
    progress.erase();
    expect(writes).toEqual([]);
  });
});
