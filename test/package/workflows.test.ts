import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const FOLDER = fileURLToPath(new URL('../../.github/workflows', import.meta.url));

interface Job {
  readonly name: string;
  readonly text: string;
}

/** The jobs of all workflows, and the text before the jobs of each workflow. */
const files = readdirSync(FOLDER).map((file) => {
  const text = readFileSync(join(FOLDER, file), 'utf8').replace(/^ *# .*\n/gm, '');
  const [head = '', body = ''] = text.split(/^jobs:\n/m);
  const jobs = body.split(/^ {2}(?=\w+:\n)/m).slice(1);
  return {
    file,
    head,
    jobs: jobs.map((job): Job => ({ name: `${file} ${job.slice(0, job.indexOf(':'))}`, text: job })),
  };
});
const allJobs = files.flatMap(({ jobs }) => jobs);

test('each workflow names each action by the hash of its commit', () => {
  const uses = allJobs.flatMap(({ text }) => [...text.matchAll(/uses: (.*)$/gm)].map(([, used = '']) => used));
  expect(uses.length).toBeGreaterThan(5);
  for (const used of uses) expect(used).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

test('no job that can publish runs a script of this repository or a package without an exact version', () => {
  for (const { file, head } of files) expect(head, file).not.toMatch(/id-token|write/);
  const publishing = allJobs.filter(({ text }) => text.includes('id-token: write'));
  expect(publishing.map(({ name }) => name).toSorted()).toEqual([
    'pages.yml deploy',
    'publish.yml jsr',
    'publish.yml npm',
  ]);
  const runs = publishing.flatMap(({ text }) => [...text.matchAll(/run: (.*)$/gm)].map(([, run = '']) => run));
  expect(runs).toHaveLength(4);
  for (const run of runs)
    expect(run).toMatch(/^(?:npm publish "\S+"\S*\.tgz .*--ignore-scripts|npx --yes [\w@/-]+@\d+\.\d+\.\d+ publish)$/);
  for (const { text } of publishing) expect(text).not.toMatch(/node-version: \d+$/m);
});
