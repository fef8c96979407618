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

Every \`etcdwire\` method throws one class, \`EtcdError\`. Match on \`reason\`, never on the text:

| field | what it says |
|---|---|
| \`reason\` | why the call failed: one of the names below |
| \`outcome\` | what is known about a write: \`not-sent\`, \`rejected\` (nothing was done), \`unknown\` (the write may have been applied, or may still be applied later) or \`applied\` (only with [\`retryWrites\`](failures.md): applied once, at \`revision\`) |
| \`code\` | the gRPC status |
| \`problem\`, \`message\` | \`problem\` describes the failure; \`message\` adds the method, the endpoint and the outcome |
| \`method\`, \`endpoint\` | the RPC that failed, and the endpoint of the member |
| \`compactRevision\` | with reason \`Compacted\`: the oldest revision available, if the server names it |
| \`revision\` | with outcome \`applied\`: the revision at which the write was applied |
| \`cause\` | the error or abort reason that led to this error |

The outcome matters for writes. A failed read can always be repeated, and the client does so within the time limit. A
write whose outcome is \`unknown\` may be repeated only if it does no harm to apply it twice. [Rule
S27](semantics.md#s27-a-write-is-repeated-only-if-it-provably-was-not-processed) says when the client itself repeats a write,
and [\`retryWrites\`](failures.md) lets it repeat every write safely. No error contains a value,
a token or a password. Only an error with reason [\`PermissionDenied\`](#permissiondenied) contains keys: those of the
request. So does an error whose cause is such an error.
`;

const CLIENT_PART = `
## Reasons of the client

"none" in the column "outcome" means that the error does not concern a write, so its outcome has no meaning.

| reason | cause | outcome | remedy |
|---|---|---|---|
`;

const SERVER_PART = `
## Reasons of the server

The names come from Go's \`rpctypes\`, without the prefix \`Err\`. Only \`ProposalDropped\` has no name there. The second
column is the message that the server sends, without \`etcdserver: \`, followed by the gRPC status.

| reason | message (status) | cause | outcome | remedy |
|---|---|---|---|---|
`;

const REFUSALS_PART = `
## Refusals that prove nothing

The members of a cluster carry out a write one after another, from the same log. As a rule, all of them refuse it or all
of them carry it out, so a refusal has the outcome \`rejected\`. The refusals in this table are the exceptions. Their
outcome is \`unknown\`.

| RPC | refusals | carried out by | why |
|---|---|---|---|
`;

/** The members that may have carried out a request although one member has refused it, and the reason for it. */
const EXCEPTIONS: Readonly<Record<string, readonly [members: string, why: string]>> = {
  'KV/Put': ['all members', 'The members check the quota again while they carry out the write.'],
  'Lease/LeaseGrant': ['all members', 'as for `KV/Put`'],
  'KV/Txn': [
    '`NoSpace`: all members; otherwise: all members except for the one that refused',
    'Before etcd 3.7, only the member that received a transaction checks reads beside a write, outside of nested transactions ([etcd issue 18667](https://github.com/etcd-io/etcd/issues/18667)). The data of the members then differ for good. Without such a read, or if a condition reads the same key or range, the outcome is `rejected`. The client refuses a read with `revision` beside a write, and puts the reads of transactions with [guards](locks.md#guards) into nested transactions. Grant `readwrite` instead of `write` to users whose transactions also read.',
  ],
  'Cluster/MemberAdd': [
    'members with a higher `--max-learners`',
    'Each member compares the number of learners with its own limit.',
  ],
  'Cluster/MemberPromote': [
    'all members',
    'A follower passes the request on to the leader, and repeats it if no answer arrives. The refusal may belong to the repetition.',
  ],
  'Lock/Lock': ['all members', 'etcd puts a key, and then waits. The refusal may belong to the wait.'],
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
  const outcome = ALSO_OF_THE_CLIENT[reason] ?? code(outcomeOf(reason, errorFromStatus(status, message).outcome));
  return row([name(reason), `${message.replace('etcdserver: ', '')} (${status})`, cause, outcome, remedy]);
});

const refusalRows = Object.entries(REFUSALS).map(([path, { inconclusive, conclusive }]) => {
  const rpc = path.slice(path.indexOf('.') + 1);
  const [members, why] = EXCEPTIONS[rpc] as (typeof EXCEPTIONS)[string];
  const names = (reasons: readonly string[]): string => reasons.map(code).join(', ');
  const refusals = conclusive === undefined ? names(inconclusive ?? []) : `all except for ${names(conclusive)}`;
  return row([code(rpc), refusals, members, why]);
});

function outcomeOf(reason: ServerReason, usual: Outcome): string {
  const hasExceptions = Object.values(REFUSALS).some(({ inconclusive }) => inconclusive?.includes(reason));
  return hasExceptions && usual !== 'unknown' ? `\`${usual}\`, with [exceptions](#refusals-that-prove-nothing)` : usual;
}

writeFileSync(
  new URL('../docs/errors.md', import.meta.url),
  [INTRODUCTION, CLIENT_PART, ...clientRows, SERVER_PART, ...serverRows, REFUSALS_PART, ...refusalRows].join(''),
);
