import { type Command, Option } from 'commander';
import {
  type Client,
  type Codec,
  MemberAddResponse,
  MemberListResponse,
  MemberPromoteResponse,
  MemberRemoveResponse,
  MemberUpdateResponse,
  type Raw,
  type ResponseHeader,
} from '../../../../src/internal.js';
import { memberId } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import type { Io } from '../io.js';
import { hexId } from '../output.js';
import { MEMBER_HEADINGS, memberRow } from '../rows.js';

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
  member
    .command('remove')
    .argument('<id>', 'in hexadecimal', memberId)
    .description('remove a member for good')
    .action((id: bigint, _, command: Command) =>
      changeMember(contextOf(io, command), MemberRemoveResponse, id, 'removed from', (cluster, call) =>
        cluster.memberRemove({ id }, call),
      ),
    );
  member
    .command('update')
    .argument('<id>', 'in hexadecimal', memberId)
    .requiredOption('--peer-urls <urls>', 'the new peer URLs of the member, separated by commas')
    .description('change the peer URLs of a member')
    .action((id: bigint, { peerUrls }: { readonly peerUrls: string }, command: Command) =>
      changeMember(contextOf(io, command), MemberUpdateResponse, id, 'updated in', (cluster, call) =>
        cluster.memberUpdate({ id, peerUrls: peerUrls.split(',') }, call),
      ),
    );
  member
    .command('promote')
    .argument('<id>', 'in hexadecimal', memberId)
    .description('let a learner vote, once it has the data of the cluster')
    .action((id: bigint, _, command: Command) =>
      changeMember(contextOf(io, command), MemberPromoteResponse, id, 'promoted in', (cluster, call) =>
        cluster.memberPromote({ id }, call),
      ),
    );
}

async function addMember(
  context: Context,
  name: string,
  peerUrls: readonly string[],
  isLearner: boolean,
): Promise<void> {
  const { out, call } = context;
  const add = (client: Client) => client.raw.cluster.memberAdd({ peerUrls: [...peerUrls], isLearner }, call);
  context.io.etcdctl?.checkPeerUrls(peerUrls);
  const response = await withClient(context, add);
  const print = (): void => {
    const { header, member, members } = response;
    const id = hexId(member?.id ?? 0n);
    out.line(`${isLearner ? 'Learner' : 'Member'} ${id} added to cluster ${hexId(header?.clusterId ?? 0n)}\n`);
    const peers = members.flatMap((each) =>
      each.peerUrls.map((url) => `${each.id === member?.id ? name : each.name}=${url}`),
    );
    const settings = {
      ETCD_NAME: name,
      ETCD_INITIAL_CLUSTER: peers.join(','),
      ETCD_INITIAL_ADVERTISE_PEER_URLS: peerUrls.join(','),
      ETCD_INITIAL_CLUSTER_STATE: 'existing',
    };
    for (const [setting, value] of Object.entries(settings)) out.line(`${setting}=${JSON.stringify(value)}`);
  };
  out.response(MemberAddResponse, response, print, { details: { name } });
}

async function changeMember<T extends { header: ResponseHeader | undefined }>(
  context: Context,
  codec: Codec<T>,
  id: bigint,
  done: string,
  change: (cluster: Raw['cluster'], call: Context['call']) => Promise<T>,
): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, ({ raw }) => change(raw.cluster, call));
  const { clusterId = 0n } = response.header ?? {};
  // etcdctl pads an ID with fewer than 16 digits.
  const shown = (each: bigint): string => hexId(each).padStart(out.etcdctl === undefined ? 0 : 16);
  out.response(codec, response, () => out.line(`Member ${shown(id)} ${done} cluster ${shown(clusterId)}`));
}

async function listMembers(context: Context, linearizable: boolean): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.cluster.memberList({ linearizable }, call));
  out.response(MemberListResponse, response, () =>
    out.rows(
      MEMBER_HEADINGS,
      response.members.map((member) => memberRow(member).map((cell) => out.text(cell))),
    ),
  );
}
