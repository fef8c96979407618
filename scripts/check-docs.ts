import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pagesIn } from '../test/support/links.js';

// Prints the words of each page beside its limit, and checks that the key sentence of each fact stands on one page:
//   npm run check:docs
// Other pages link to this page. The tests in test/docs check the links and the code blocks.

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** How much longer than its limit a page may be. */
const TOLERANCE = 1.1;

/** The limit of words of each page. */
const WORDS: Readonly<Record<string, number>> = {
  'README.md': 700,
  'docs/README.md': 350,
  'docs/getting-started.md': 900,
  'docs/keys.md': 2_500,
  'docs/watches.md': 1_800,
  'docs/leases.md': 1_500,
  'docs/locks.md': 2_200,
  'docs/queues.md': 2_200,
  'docs/recipes.md': 2_500,
  'docs/connections.md': 2_200,
  'docs/failures.md': 1_600,
  'docs/production.md': 1_600,
  'docs/frameworks.md': 1_600,
  'docs/testing.md': 1_600,
  'docs/opentelemetry.md': 800,
  'docs/runtimes.md': 2_200,
  'docs/from-etcd3.md': 2_050,
  'docs/go-clientv3.md': 1_200,
  'docs/from-others.md': 800,
  'docs/errors.md': 3_000,
  'docs/semantics.md': 5_000,
  'docs/benchmarks.md': 1_500,
  'docs/faults.md': 1_500,
  'docs/contributing.md': 1_000,
  'docs/wire.md': 5_150,
  'src/README.md': 2_000,
  'packages/cli/README.md': 500,
  'packages/cli/docs/guide.md': 2_300,
  'packages/cli/docs/traffic.md': 1_500,
  'packages/migrate/README.md': 800,
};

/** The key sentence of each fact, and the only page that says it. */
const FACTS: readonly (readonly [sentence: string, page: string])[] = [
  ['Keys are sorted by their bytes. There are no folders', 'docs/keys.md'],
  ['Revisions and IDs are `bigint`.', 'docs/keys.md'],
  ['Revisions and IDs become decimal strings', 'docs/keys.md'],
  ['throws `NotText` if the key is not UTF-8', 'docs/keys.md'],
  ['By default, a read is linearizable', 'docs/keys.md'],
  ['A cursor is the last key of a page.', 'docs/keys.md'],
  ['If the client may have missed changes, it reads the range again', 'docs/watches.md'],
  ['deadline = send time + TTL - margin', 'docs/leases.md'],
  ['because it is usually a number of milliseconds', 'docs/leases.md'],
  ['A put without the options `lease` and `ignoreLease` detaches the key from its lease.', 'docs/leases.md'],
  ['A session is a lease that the client keeps alive.', 'docs/leases.md'],
  ['The lock `jobs` also waits for the lock `jobs/x`', 'docs/locks.md'],
  ['the fencing token, a `bigint`: every later holder has a greater one', 'docs/locks.md'],
  ['A lock does not make the action atomic.', 'docs/locks.md'],
  ['A guard is a small key under `etcdwire/guards/`', 'docs/locks.md'],
  ['Contenders get the lock in the order in which they queued', 'docs/locks.md'],
  ['A `WorkQueue` delivers each job at least once.', 'docs/queues.md'],
  ['Use a limiter for at most a few hundred calls a second', 'docs/queues.md'],
  ['No write is applied twice**, because the client repeats a write only with one of these proofs', 'docs/failures.md'],
  ['etcd may have applied the write, or may still apply it.', 'docs/failures.md'],
  ['With `retryWrites`, the client sends a write again until a member answers', 'docs/failures.md'],
  ['These are the times of the default options.', 'docs/failures.md'],
  ['emits the process warning `ETCDWIRE_UNREACHABLE`', 'docs/connections.md'],
  ['one random endpoint until it fails, then another random one', 'docs/connections.md'],
  ['`close` waits until calls in flight and these actions have ended', 'docs/production.md'],
  ['true if at least one endpoint answered the read', 'docs/production.md'],
  ['Each part of the package needs `readwrite` on its keys', 'docs/production.md'],
  ['a new minor version may break what this table promises', 'docs/production.md'],
  ['A process may stand still for seconds or days', 'docs/frameworks.md'],
  ['The package contains each module as an ES module and as a CommonJS module.', 'docs/getting-started.md'],
];

const pages = [...pagesIn(ROOT), 'src/README.md'].filter((page) => !isOther(page));
const texts = new Map(pages.map((page) => [page, readFileSync(join(ROOT, page), 'utf8')]));
const problems: string[] = [];

/** Whether the page has no limit of words. */
function isOther(page: string): boolean {
  return page.startsWith('packages/learn/') || ['CHANGELOG.md', 'SECURITY.md'].includes(page);
}

function wordsOf(text: string): number {
  return text.split(/\s+/).filter((word) => word !== '').length;
}

let sum = 0;
console.log('| page | words | limit |\n|---|---:|---:|');
for (const [page, text] of texts) {
  const words = wordsOf(text);
  const limit = WORDS[page];
  sum += words;
  console.log(`| ${page} | ${words.toLocaleString('en')} | ${limit?.toLocaleString('en') ?? ''} |`);
  if (limit === undefined) problems.push(`${page} has no limit in scripts/check-docs.ts`);
  else if (words > limit * TOLERANCE)
    problems.push(`${page} has ${words} words, more than ${Math.floor(limit * TOLERANCE)}: shorten it`);
}
console.log(`| all | ${sum.toLocaleString('en')} | |`);

for (const page of Object.keys(WORDS))
  if (!texts.has(page)) problems.push(`${page} does not exist, but has a limit in scripts/check-docs.ts`);
for (const [sentence, page] of FACTS) {
  const found = pages.filter((each) => texts.get(each)?.replace(/\s+/g, ' ').includes(sentence));
  if (found.length !== 1 || found[0] !== page)
    problems.push(`"${sentence}" must stand on ${page} only; it stands on ${found.join(', ') || 'no page'}`);
}
for (const problem of problems) console.log(problem);
if (problems.length > 0) process.exitCode = 1;
