import type { Message, Outcome, Server } from './target.js';

/** The user with whose token the test makes its own calls. No sequence changes the password of root. */
export const ROOT = { name: 'root', password: 'root' };

interface OwnMember {
  readonly id: bigint;
  readonly name: string;
  readonly peerUrls: string[];
  readonly clientUrls: string[];
}

/** The state of a server after `reset`. */
export interface ResetState {
  readonly header: { readonly revision: bigint };
  /** The members of the cluster at the start. */
  readonly members: readonly OwnMember[];
  readonly authRevision: bigint;
}

type Call = (name: string, request: Message) => Promise<Message>;

const ALL_KEYS = { key: Uint8Array.of(0), rangeEnd: Uint8Array.of(0) };
const MARKER = { key: Uint8Array.of(0x7e) };
/** The number of puts before each of the two compactions, so that a sequence does not start at revision 1. */
const MARKERS = 5;
const NO_ALARM = 0;
const DEACTIVATE = 2;
const CANCEL_DOWNGRADE = 2;

/**
 * Removes the keys, leases, users, roles, alarms and learners that earlier sequences have left, and then compacts.
 * Afterwards, two servers differ only in their IDs and in the numbers of their revisions.
 */
export async function reset(server: Server): Promise<ResetState> {
  const { connection, called } = server;
  let token: string | undefined;
  const call: Call = async (name, request) => {
    const outcome = await connection.unary(name, request, token);
    return resultOf(name, outcome);
  };
  const remove = async (list: string, property: string, each: (item: never) => Promise<unknown>): Promise<void> => {
    for (const item of (await call(list, {}))[property] as never[]) await each(item);
  };
  if (called.has('auth')) {
    const { messages } = await connection.unary('auth.authenticate', ROOT);
    token = messages[0]?.token as string | undefined;
    await call('auth.authDisable', {});
    token = undefined;
    await remove('auth.userList', 'users', (name) => call('auth.userDelete', { name }));
    await remove('auth.roleList', 'roles', (role) => call('auth.roleDelete', { role }));
  }
  if (called.has('maintenance')) {
    const { alarms } = await call('maintenance.alarm', { action: 0, alarm: NO_ALARM });
    for (const { memberId, alarm } of alarms as { memberId: bigint; alarm: number }[])
      await call('maintenance.alarm', { action: DEACTIVATE, memberId, alarm });
    await connection.unary('maintenance.downgrade', { action: CANCEL_DOWNGRADE });
  }
  if (['lease', 'lock', 'election'].some((service) => called.has(service)))
    // A lease may expire between the two calls.
    await remove('lease.leaseLeases', 'leases', ({ id }: { id: bigint }) =>
      connection.unary('lease.leaseRevoke', { id }),
    );
  const members = await resetMembers(server, call);
  await call('kv.deleteRange', ALL_KEYS);
  // Compacts twice, because `HashKV` still shows the hash of the compaction before the last one.
  await compactAfterPuts(call);
  const header = await compactAfterPuts(call);
  const { authRevision } = await call('auth.authStatus', {});
  called.clear();
  return { header, members, authRevision: authRevision as bigint };
}

/** Changes a key and deletes it, and then compacts. */
async function compactAfterPuts(call: Call): Promise<ResetState['header']> {
  for (let puts = 0; puts < MARKERS; puts += 1) await call('kv.put', MARKER);
  const { header } = (await call('kv.deleteRange', MARKER)) as unknown as ResetState;
  await call('kv.compact', { revision: header.revision });
  return header;
}

/** Removes the members that never started, so have no name, and restores the peer URL of the member that answers. */
async function resetMembers(server: Server, call: Call): Promise<OwnMember[]> {
  const { header, members } = (await call('cluster.memberList', {})) as unknown as {
    header: { memberId: bigint };
    members: OwnMember[];
  };
  const own = members.find(({ id }) => id === header.memberId);
  if (own === undefined) throw new Error('a member that answers is not in its own list of members');
  for (const { id, name } of members) if (name === '') await call('cluster.memberRemove', { id });
  server.peerUrls ??= own.peerUrls;
  const { peerUrls } = server;
  if (peerUrls.join() !== own.peerUrls.join()) await call('cluster.memberUpdate', { id: own.id, peerUrls });
  return members.filter(({ name }) => name !== '').map((each) => (each === own ? { ...own, peerUrls } : each));
}

function resultOf(name: string, { messages, error }: Outcome): Message {
  const [message] = messages;
  if (error !== undefined || message === undefined)
    throw new Error(`${name} failed between two sequences`, { cause: error });
  return message;
}
