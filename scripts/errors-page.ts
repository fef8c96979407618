import { writeFileSync } from 'node:fs';
import type { Outcome } from '../src/errors/etcd-error.js';
import { SERVER_ERRORS, type ServerReason } from '../src/errors/status.js';
import { errorFromStatus } from '../src/errors/status-error.js';
import { CLIENT_REASONS, SERVER_REASONS } from '../src/inspect/reasons.js';

// Writes docs/errors.md from the tables of reasons:
//   npm run docs:errors
// The outcome of each server error is computed with the client's own code, so that the page agrees with the client.

const INTRODUCTION = `# Errors

<!-- Written by scripts/errors-page.ts. Do not edit. -->

Every \`etcdwire\` method throws one class, \`EtcdError\`. Match on \`reason\`, never on the text:

| field | what it says |
|---|---|
| \`reason\` | why the call failed: one of the names below |
| \`outcome\` | what is known about a write: \`not-sent\`, \`rejected\` (nothing was done), \`unknown\` (the write may have been applied, or may still be applied later) or \`applied\` (only with [\`retryWrites\`](writes.md): applied once, at \`revision\`) |
| \`code\` | the gRPC status |
| \`problem\`, \`message\` | \`problem\` describes the failure; \`message\` adds the method, the endpoint and the outcome |
| \`method\`, \`endpoint\` | the RPC that failed, and the endpoint of the member |
| \`compactRevision\` | with reason \`Compacted\`: the oldest revision available, if the server names it |
| \`revision\` | with outcome \`applied\`: the revision at which the write was applied |
| \`cause\` | the error or abort reason that led to this error |

The outcome matters for writes. A failed read can always be repeated, and the client does so within the time limit. A
write whose outcome is \`unknown\` may be repeated only if it does no harm to apply it twice. [Rule
S27](semantics.md#s27-a-write-is-repeated-only-if-it-provably-was-not-processed) says when the client itself repeats a write,
and [\`retryWrites\`](writes.md) lets it repeat every write safely. No error contains a key, value, token or password.
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
  const outcome = ALSO_OF_THE_CLIENT[reason] ?? code(errorFromStatus(status, message).outcome);
  return row([name(reason), `${message.replace('etcdserver: ', '')} (${status})`, cause, outcome, remedy]);
});

writeFileSync(
  new URL('../docs/errors.md', import.meta.url),
  [INTRODUCTION, CLIENT_PART, ...clientRows, SERVER_PART, ...serverRows].join(''),
);
