import { type Command, Option } from 'commander';
import {
  type Init,
  type MemberAddResponse,
  type Method,
  methods,
  type ResponseHeader,
} from '../../../../src/internal.js';
import { memberId } from '../arguments.js';
import { type Context, contextOf } from '../context.js';
import type { Io } from '../io.js';
import { hexId } from '../output.js';
import { printCall } from '../print-call.js';
import { MEMBER_HEADINGS, memberRow, memberSettings } from '../rows.js';

const { cluster } = methods;

export function addMemberCommands(program: Command, io: Io): void {
  const member = program.command('member').description('list, add, change and remove members');
  member
    .command('list')
    .description('list the members')
    .addOption(
      new Option('--consistency <level>', 'l: the list on which the members agree; s: that of the member that answers')
        .choices(['l', 's'])
        .default('l'),
    )
    .action(({ consistency }: { readonly consistency: 'l' | 's' }, command: Command) =>
      listMembers(contextOf(io, command), consistency === 'l'),
    );
  member
    .command('add')
    .argument('<name>', 'the --name of the new member')
    .requiredOption('--peer-urls <urls>', 'the peer URLs of the new member, separated by commas')
    .option('--learner', 'add the member as a learner, which does not vote')
    .description('add a member, and print the settings with which to start it')
    .action((name: string, flags: { readonly peerUrls: string; readonly learner?: boolean }, command: Command) =>
      addMember(contextOf(io, command), name, flags.peerUrls.split(','), flags.learner ?? false),
    );
  const addChange = (name: string, description: string): Command =>
    member.command(name).argument('<id>', 'in hexadecimal', memberId).description(description);
  addChange('remove', 'remove a member for good').action((id: bigint, _, command: Command) =>
    changeMember(contextOf(io, command), cluster.memberRemove, { id }, 'removed from'),
  );
  addChange('update', 'change the peer URLs of a member')
    .requiredOption('--peer-urls <urls>', 'the new peer URLs of the member, separated by commas')
    .action((id: bigint, { peerUrls }: { readonly peerUrls: string }, command: Command) =>
      changeMember(contextOf(io, command), cluster.memberUpdate, { id, peerUrls: peerUrls.split(',') }, 'updated in'),
    );
  addChange('promote', 'let a learner vote, once it has the data of the cluster').action(
    (id: bigint, _, command: Command) =>
      changeMember(contextOf(io, command), cluster.memberPromote, { id }, 'promoted in'),
  );
}

async function addMember(
  context: Context,
  name: string,
  peerUrls: readonly string[],
  isLearner: boolean,
): Promise<void> {
  const { io, out } = context;
  io.etcdctl?.checkPeerUrls(peerUrls);
  const print = (response: MemberAddResponse): void => {
    const { header, member } = response;
    const id = hexId(member?.id ?? 0n);
    out.line(`${isLearner ? 'Learner' : 'Member'} ${id} added to cluster ${hexId(header?.clusterId ?? 0n)}\n`);
    for (const line of memberSettings(name, response, peerUrls)) out.line(line);
  };
  await printCall(context, cluster.memberAdd, { peerUrls: [...peerUrls], isLearner }, print, { details: { name } });
}

function changeMember<Request, Response extends { header: ResponseHeader | undefined }>(
  context: Context,
  method: Method<Request, Response, 'unary'>,
  request: Init<Request> & { readonly id: bigint },
  done: string,
): Promise<void> {
  const { out } = context;
  // etcdctl pads an ID with fewer than 16 digits.
  const shown = (each: bigint): string => hexId(each).padStart(out.etcdctl === undefined ? 0 : 16);
  return printCall(context, method, request, ({ header }) =>
    out.line(`Member ${shown(request.id)} ${done} cluster ${shown(header?.clusterId ?? 0n)}`),
  );
}

function listMembers(context: Context, linearizable: boolean): Promise<void> {
  const { out } = context;
  return printCall(context, cluster.memberList, { linearizable }, ({ members }) => {
    const rows = members.map((member) => memberRow(member).map((cell) => out.text(cell)));
    out.rows(MEMBER_HEADINGS, rows);
  });
}
