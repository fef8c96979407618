import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli } from '../support/cli.js';
import { unique } from '../support/client.js';
import { temporaryFolder } from '../support/temporary-folder.js';

interface Line {
  readonly direction: string;
  readonly stream: number;
  readonly type: string;
  readonly hex: string;
  readonly messages?: readonly { readonly type: string; readonly message: Readonly<Record<string, unknown>> }[];
}

test('trace tells the frames of another command on standard error, which runs as it does without', async () => {
  const key = unique();
  const { code, stdout, stderr } = await cli(['trace', '--', 'put', key, 'seen', '-w', 'simple']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'OK\n' });
  const lines = stderr.trimEnd().split('\n');
  expect(lines[0]).toMatch(/^ +\d+\.\d ms {2}> {2}1 +PREFACE$/);
  expect(lines.find((line) => line.includes('DATA END_STREAM'))).toMatch(
    new RegExp(`> {2}1:1 +DATA END_STREAM +PutRequest \\{"key":"${key}","value":"seen"\\}$`),
  );
  expect(lines.find((line) => line.includes('PutResponse'))).toMatch(/< {2}1:1 +DATA +PutResponse/);
});

test('trace --out writes a line of JSON a frame, with its bytes, for nobody else to read', async () => {
  const file = join(temporaryFolder(), 'trace.jsonl');
  const name = unique('lock');
  const { code } = await cli(['trace', '--out', file, '--', 'lock', name, '--', 'sh', '-c', 'exit 3']);
  expect(code).toBe(3);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const lines = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line): Line => JSON.parse(line));
  const types = lines.flatMap(({ messages = [] }) => messages.map(({ type }) => type));
  expect(types).toEqual(expect.arrayContaining(['etcdserverpb.LeaseGrantRequest', 'etcdserverpb.TxnRequest']));
  for (const { hex } of lines) expect(hex).toMatch(/^([0-9a-f]{2})+$/);
});

test.each([
  [['trace', '--', 'trace', '--', 'status'], 64, 'got itself'],
  [['trace', '--out', '/no/such/folder/file', '--', 'status'], 1, 'ENOENT'],
  [['trace'], 64, 'missing required argument'],
])('%j ends with %i', async (args, code, words) => {
  expect(await cli(args)).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(words) });
});
