import { writeFileSync } from 'node:fs';
import type { Outcome } from '../src/base/etcd-error.js';
import { CLIENT_REASONS, SERVER_REASONS } from '../src/base/reason-texts.js';
import { REFUSALS } from '../src/base/refusals.js';
import { SERVER_ERRORS, type ServerReason } from '../src/base/status.js';
import { errorFromStatus } from '../src/base/status-error.js';

// Writes docs/errors.md from the tables of reasons:
//   npm run docs:errors
// The outcome of each server error is computed with the client's own code, so that the page agrees with the client.

const INTRODUCTION = `# Errors

<!-- Written by scripts/errors-page.ts. Do not edit. -->

Every method of \`etcdwire\` throws one class, \`EtcdError\`. Look up its \`reason\` on this page. Match on \`reason\`, never
on the text:

\`\`\`ts
import { connect, EtcdError } from 'etcdwire';

const etcd = await connect({ endpoints: ['http://127.0.0.1:2379'] });
try {
  await etcd.get('color', { revision: 1_000_000n });
} catch (error) {
  if (!(error instanceof EtcdError)) throw error;
  console.log(error.reason, error.outcome); // FutureRev rejected
}
await etcd.close();
\`\`\`

| field | what it says |
|---|---|
| \`reason\` | why the call failed |
| \`outcome\` | whether a write was applied: [When etcd fails](failures.md) says what to do for each outcome |
| \`code\` | the gRPC status |
| \`problem\`, \`message\` | the failure; \`message\` adds the method, the endpoint and the outcome |
| \`method\`, \`endpoint\` | the RPC, and the endpoint of the member |
| \`compactRevision\` | with \`Compacted\`: the oldest revision available |
| \`revision\` | with outcome \`applied\`: the revision of the write |
| \`cause\` | the error or abort reason that led to this error |

No error contains a value, a token or a password. Only \`PermissionDenied\` contains keys: those of the request.

| text that you see | page |
|---|---|
| \`14 UNAVAILABLE\`, \`ECONNREFUSED\` | [\`ConnectFailed\`](#connectfailed) |
| \`ETIMEDOUT\`, \`RST_STREAM\` after a pause | [Frameworks](frameworks.md#what-freezes) |
| \`RESOURCE_EXHAUSTED\`, "larger than max" | \`scan\` in [Keys](keys.md) |
| \`ERR_REQUIRE_ESM\`, "Cannot use import statement" | [Getting started](getting-started.md) |
| Jest "did not exit" | [Testing](testing.md) |
`;

const CLIENT_PART = `
## Reasons of the client

The outcome is "none" if the error does not concern a write.

| reason | cause | outcome | remedy |
|---|---|---|---|
`;

const SERVER_PART = `
## Reasons of the server

The names are those of Go's \`rpctypes\`, without the prefix \`Err\`, and \`ProposalDropped\`. The message of the server
stands in quotation marks, without \`etcdserver: \`. The outcome is \`rejected\`, unless the row says otherwise.

| reason | message and cause | remedy |
|---|---|---|
`;

const REFUSALS_PART = `
## Refusals that prove nothing

The members of a cluster carry out a write one after another, from the same log. If one refuses it, all refuse it, so
the outcome is \`rejected\`. In these cases, the outcome is \`unknown\`:

| RPC | refusals | carried out by | why |
|---|---|---|---|
`;

/** The members that may have carried out a request although one member has refused it, and the reason for it. */
const EXCEPTIONS: Readonly<Record<string, readonly [members: string, why: string]>> = {
  'KV/Put': ['all members', 'The members check the quota again.'],
  'Lease/LeaseGrant': ['all members', 'as for `KV/Put`'],
  'KV/Txn': [
    '`NoSpace`: all members; otherwise: all except for the one that refused',
    'Before etcd 3.7, only the member that received a transaction checks reads beside a write ([etcd issue 18667](https://github.com/etcd-io/etcd/issues/18667)), so the data of the members differ for good. Without such a read, or if a condition reads the same keys, the outcome is `rejected`. The client refuses a read with `revision` beside a write. Grant `readwrite` instead of `write` to users whose transactions also read.',
  ],
  'Cluster/MemberAdd': ['members with a higher `--max-learners`', 'Each member has its own limit.'],
  'Cluster/MemberPromote': ['all members', 'The refusal may belong to a repetition by a follower.'],
  'Lock/Lock': ['all members', 'etcd puts a key, and then waits.'],
  'Election/Campaign': ['all members', 'as for `Lock/Lock`'],
};

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |\n`;
}

/** Returns the name of a reason, with an anchor so that other pages can link to it. */
function name(reason: string): string {
  return `<a id="${reason.toLowerCase()}"></a>\`${reason}\``;
}

/**
 * The outcome texts for server reasons that the client also sets itself. When the client sets such a reason, it knows
 * more about the write than a server error says.
 */
const ALSO_OF_THE_CLIENT: Partial<Record<ServerReason, string>> = {
  Canceled: '`not-sent` if the request had not left, otherwise `unknown`',
  DeadlineExceeded: '`not-sent` if the request had not left, otherwise `unknown`',
  NotLeader: '`rejected`; `not-sent` from `moveLeader`',
};

function code(text: Outcome | string): string {
  return text.includes(' ') || text === 'none' ? text : `\`${text}\``;
}

const clientRows = Object.entries(CLIENT_REASONS).map(([reason, { cause, outcome, remedy }]) =>
  row([name(reason), cause, code(outcome), remedy]),
);
const serverRows = Object.entries(SERVER_ERRORS).map(([key, [status, message]]) => {
  const reason = key as ServerReason;
  const { cause, remedy } = SERVER_REASONS[reason];
  const outcome = ALSO_OF_THE_CLIENT[reason] ?? outcomeOf(reason, errorFromStatus(status, message).outcome);
  const details = [cause, outcome && `Outcome ${outcome}.`].filter(Boolean).join(' ');
  const quoted = `"${message.replace('etcdserver: ', '')}"`;
  return row([name(reason), details === '' ? quoted : `${quoted}: ${details}`, remedy]);
});

const refusalRows = Object.entries(REFUSALS).map(([path, { inconclusive, conclusive }]) => {
  const rpc = path.slice(path.indexOf('.') + 1);
  const [members, why] = EXCEPTIONS[rpc] as (typeof EXCEPTIONS)[string];
  const names = (reasons: readonly string[]): string => reasons.map(code).join(', ');
  const refusals = conclusive === undefined ? names(inconclusive ?? []) : `all except for ${names(conclusive)}`;
  return row([code(rpc), refusals, members, why]);
});

/** Returns undefined if the outcome is always `rejected`. */
function outcomeOf(reason: ServerReason, usual: Outcome): string | undefined {
  const hasExceptions = Object.values(REFUSALS).some(({ inconclusive }) => inconclusive?.includes(reason));
  if (usual !== 'rejected') return code(usual);
  return hasExceptions ? '`rejected`, with [exceptions](#refusals-that-prove-nothing)' : undefined;
}

writeFileSync(
  new URL('../docs/errors.md', import.meta.url),
  [INTRODUCTION, CLIENT_PART, ...clientRows, SERVER_PART, ...serverRows, REFUSALS_PART, ...refusalRows].join(''),
);
