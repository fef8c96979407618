import type { Command } from 'commander';

/** Examples by the path of the command, and the part of the pages in packages/cli/docs that describes the command. */
const EXAMPLES: Readonly<Record<string, readonly [section: string, ...examples: string[]]>> = {
  get: ['guide.md#keys', 'etcdwire get config/color', 'etcdwire get --prefix config/ --keys-only'],
  put: ['guide.md#keys', 'etcdwire put config/color blue', 'etcdwire put config/color < file'],
  del: ['guide.md#keys', 'etcdwire del --prefix config/'],
  watch: [
    'guide.md#keys',
    'etcdwire watch --prefix config/',
    "etcdwire watch config/color -- sh -c 'echo $ETCDWIRE_WATCH_VALUE'",
  ],
  history: ['guide.md#keys', 'etcdwire history config/color', 'etcdwire history config/color --restore 17'],
  txn: ['guide.md#keys', 'etcdwire txn request.json', 'etcdwire describe --template Txn > request.json'],
  export: ['guide.md#copying-keys', 'etcdwire export --prefix config/ --file config.jsonl'],
  import: ['guide.md#copying-keys', 'etcdwire import --file config.jsonl --existing skip-equal'],
  mirror: ['guide.md#mirroring-keys-to-another-cluster', 'etcdwire mirror --prefix config/ --to 10.0.1.1:2379'],
  lock: [
    'guide.md#a-lock-around-a-command',
    'etcdwire lock jobs/nightly -- ./backup.sh',
    'etcdwire lock jobs/nightly --try -- ./backup.sh',
  ],
  elect: [
    'guide.md#a-lock-around-a-command',
    'etcdwire elect leader "$(hostname)" -- ./serve.sh',
    'etcdwire elect --listen leader',
  ],
  shards: ['guide.md#shards', 'etcdwire shards orders', 'etcdwire shards orders --workers'],
  'lease grant': ['guide.md#administration', 'etcdwire lease grant 60'],
  'lease revoke': ['guide.md#administration', 'etcdwire lease revoke 694d8c1b2f4a3e01'],
  'lease timetolive': ['guide.md#administration', 'etcdwire lease timetolive 694d8c1b2f4a3e01 --keys'],
  'lease list': ['guide.md#administration', 'etcdwire lease list'],
  'lease keep-alive': ['guide.md#administration', 'etcdwire lease keep-alive 694d8c1b2f4a3e01'],
  'member list': ['guide.md#administration', 'etcdwire member list'],
  'member add': ['guide.md#administration', 'etcdwire member add m4 --peer-urls http://10.0.0.4:2380 --learner'],
  'member remove': ['guide.md#administration', 'etcdwire member remove 8e9e05c52164694d'],
  'member update': [
    'guide.md#administration',
    'etcdwire member update 8e9e05c52164694d --peer-urls http://10.0.0.5:2380',
  ],
  'member promote': ['guide.md#administration', 'etcdwire member promote 8e9e05c52164694d'],
  status: ['guide.md#administration', 'etcdwire status --cluster'],
  'endpoint status': ['guide.md#administration', 'etcdwire endpoint status --cluster'],
  'endpoint health': ['guide.md#administration', 'etcdwire endpoint health --cluster'],
  'endpoint hashkv': ['guide.md#administration', 'etcdwire endpoint hashkv --cluster'],
  compaction: ['guide.md#administration', 'etcdwire compaction 1000 --physical'],
  defrag: ['guide.md#administration', 'etcdwire defrag --cluster --command-timeout 5m'],
  'alarm list': ['guide.md#administration', 'etcdwire alarm list'],
  'alarm disarm': ['guide.md#administration', 'etcdwire alarm disarm'],
  'move-leader': ['guide.md#administration', 'etcdwire move-leader 8e9e05c52164694d'],
  'snapshot save': ['guide.md#administration', 'etcdwire snapshot save backup.db --endpoints 10.0.0.1:2379'],
  'downgrade validate': ['guide.md#administration', 'etcdwire downgrade validate 3.5'],
  'downgrade enable': ['guide.md#administration', 'etcdwire downgrade enable 3.5'],
  'downgrade cancel': ['guide.md#administration', 'etcdwire downgrade cancel'],
  'check datascale': ['guide.md#administration', 'etcdwire check datascale --load s'],
  'check perf': ['guide.md#administration', 'etcdwire check perf --load m'],
  'user add': [
    'guide.md#administration',
    'echo "$PASSWORD" | etcdwire user add anne',
    'etcdwire user add anne --no-password',
  ],
  'user delete': ['guide.md#administration', 'etcdwire user delete anne'],
  'user get': ['guide.md#administration', 'etcdwire user get anne'],
  'user list': ['guide.md#administration', 'etcdwire user list'],
  'user passwd': ['guide.md#administration', 'echo "$PASSWORD" | etcdwire user passwd anne'],
  'user grant-role': ['guide.md#administration', 'etcdwire user grant-role anne reader'],
  'user revoke-role': ['guide.md#administration', 'etcdwire user revoke-role anne reader'],
  'role add': ['guide.md#administration', 'etcdwire role add reader'],
  'role delete': ['guide.md#administration', 'etcdwire role delete reader'],
  'role get': ['guide.md#administration', 'etcdwire role get reader'],
  'role list': ['guide.md#administration', 'etcdwire role list'],
  'role grant-permission': ['guide.md#administration', 'etcdwire role grant-permission reader read config/ --prefix'],
  'role revoke-permission': ['guide.md#administration', 'etcdwire role revoke-permission reader config/ --prefix'],
  'auth enable': ['guide.md#administration', 'etcdwire auth enable'],
  'auth disable': ['guide.md#administration', 'etcdwire auth disable --user root:PASSWORD'],
  'auth status': ['guide.md#administration', 'etcdwire auth status'],
  call: [
    'guide.md#calling-any-rpc-and-decoding-bytes',
    `etcdwire call KV/Range '{"key": "config/color"}'`,
    'etcdwire call Status',
  ],
  list: ['guide.md#calling-any-rpc-and-decoding-bytes', 'etcdwire list', 'etcdwire list -w json'],
  describe: [
    'guide.md#calling-any-rpc-and-decoding-bytes',
    'etcdwire describe KV/Txn',
    'etcdwire describe --template Put',
  ],
  decode: ['guide.md#calling-any-rpc-and-decoding-bytes', 'etcdwire decode PutRequest 0a0161 120131'],
  trace: [
    'traffic.md#trace-one-command',
    'etcdwire trace -- put a 1',
    'etcdwire trace --html lock.html -- lock jobs -- true',
    'etcdwire trace --serve -- lock jobs -- ./report.sh',
    "etcdwire trace --html locks.html --beside 'etcdctl lock jobs true' -- lock jobs -- true",
    'etcdwire trace --serve -- etcdctl lock jobs true',
  ],
  proxy: [
    'traffic.md#proxy-for-programs-that-run',
    'etcdwire proxy --listen http://127.0.0.1:23790 --serve',
    'etcdwire proxy --record traffic.pcapng --quiet',
    "etcdwire proxy --fault 'drop-answer rpc=Put prefix=jobs/ times=1'",
  ],
  show: [
    'traffic.md#recordings',
    'etcdwire show traffic.pcapng --rpc Put,Txn --prefix jobs/',
    'etcdwire show traffic.pcapng --html traffic.html',
    'etcdwire show before.pcapng after.pcapng --html difference.html',
  ],
  replay: [
    'traffic.md#replay',
    'etcdwire replay traffic.pcapng',
    'etcdwire replay traffic.pcapng --test traffic.test.ts',
    'etcdwire replay traffic.pcapng --against-server --endpoints 127.0.0.1:2379',
  ],
  completion: [
    'guide.md#completion',
    'source <(etcdwire completion bash)',
    'etcdwire completion fish > ~/.config/fish/completions/etcdwire.fish',
  ],
  help: ['guide.md#guide-to-the-command-etcdwire', 'etcdwire help lease grant'],
  version: ['guide.md#guide-to-the-command-etcdwire', 'etcdwire version'],
};

/** Adds examples and a link to the documentation to the help of each command. @throws Error if examples are missing. */
export function addExamples(command: Command, path = ''): void {
  for (const each of command.commands) {
    const name = `${path} ${each.name()}`.trim();
    if (each.commands.length > 0) addExamples(each, name);
    const isGroupHelp = path !== '' && each.name() === 'help';
    if (each.commands.length > 0 || isGroupHelp || !command.createHelp().visibleCommands(command).includes(each))
      continue;
    const [section, ...examples] = EXAMPLES[name] ?? [];
    if (section === undefined) throw new Error(`packages/cli/src/examples.ts has no example for ${name}`);
    const lines = examples.map((example) => `  ${example}\n`).join('');
    each.addHelpText('after', `\nExamples:\n${lines}\nMore in docs/${section} of the package etcdwire-cli.`);
  }
}
