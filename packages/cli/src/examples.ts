import type { Command } from 'commander';

/** Examples by the path of the command, and the part of docs/command-line.md that describes the command. */
const EXAMPLES: Readonly<Record<string, readonly [section: string, ...examples: string[]]>> = {
  get: ['keys', 'etcdwire get config/color', 'etcdwire get --prefix config/ --keys-only'],
  put: ['keys', 'etcdwire put config/color blue', 'etcdwire put config/color < file'],
  del: ['keys', 'etcdwire del --prefix config/'],
  watch: [
    'keys',
    'etcdwire watch --prefix config/',
    "etcdwire watch config/color -- sh -c 'echo $ETCDWIRE_WATCH_VALUE'",
  ],
  history: ['keys', 'etcdwire history config/color', 'etcdwire history config/color --restore 17'],
  txn: [
    'calling-any-rpc-and-decoding-bytes',
    'etcdwire txn request.json',
    'etcdwire describe --template Txn > request.json',
  ],
  export: ['copying-keys', 'etcdwire export --prefix config/ --file config.jsonl'],
  import: ['copying-keys', 'etcdwire import --file config.jsonl --existing skip-equal'],
  mirror: ['mirroring-keys-to-another-cluster', 'etcdwire mirror --prefix config/ --to 10.0.1.1:2379'],
  lock: [
    'a-lock-around-a-command',
    'etcdwire lock jobs/nightly -- ./backup.sh',
    'etcdwire lock jobs/nightly --try -- ./backup.sh',
  ],
  elect: [
    'a-lock-around-a-command',
    'etcdwire elect leader "$(hostname)" -- ./serve.sh',
    'etcdwire elect --listen leader',
  ],
  shards: ['shards', 'etcdwire shards orders', 'etcdwire shards orders --workers'],
  'lease grant': ['administration', 'etcdwire lease grant 60'],
  'lease revoke': ['administration', 'etcdwire lease revoke 694d8c1b2f4a3e01'],
  'lease timetolive': ['administration', 'etcdwire lease timetolive 694d8c1b2f4a3e01 --keys'],
  'lease list': ['administration', 'etcdwire lease list'],
  'lease keep-alive': ['administration', 'etcdwire lease keep-alive 694d8c1b2f4a3e01'],
  'member list': ['administration', 'etcdwire member list'],
  'member add': ['administration', 'etcdwire member add m4 --peer-urls http://10.0.0.4:2380 --learner'],
  'member remove': ['administration', 'etcdwire member remove 8e9e05c52164694d'],
  'member update': ['administration', 'etcdwire member update 8e9e05c52164694d --peer-urls http://10.0.0.5:2380'],
  'member promote': ['administration', 'etcdwire member promote 8e9e05c52164694d'],
  status: ['administration', 'etcdwire status --cluster'],
  'endpoint status': ['administration', 'etcdwire endpoint status --cluster'],
  'endpoint health': ['administration', 'etcdwire endpoint health --cluster'],
  'endpoint hashkv': ['administration', 'etcdwire endpoint hashkv --cluster'],
  compaction: ['administration', 'etcdwire compaction 1000 --physical'],
  defrag: ['administration', 'etcdwire defrag --cluster --command-timeout 5m'],
  'alarm list': ['administration', 'etcdwire alarm list'],
  'alarm disarm': ['administration', 'etcdwire alarm disarm'],
  'move-leader': ['administration', 'etcdwire move-leader 8e9e05c52164694d'],
  'snapshot save': ['administration', 'etcdwire snapshot save backup.db --endpoints 10.0.0.1:2379'],
  'downgrade validate': ['administration', 'etcdwire downgrade validate 3.5'],
  'downgrade enable': ['administration', 'etcdwire downgrade enable 3.5'],
  'downgrade cancel': ['administration', 'etcdwire downgrade cancel'],
  'check datascale': ['administration', 'etcdwire check datascale --load s'],
  'check perf': ['administration', 'etcdwire check perf --load m'],
  'user add': ['administration', 'echo "$PASSWORD" | etcdwire user add anne', 'etcdwire user add anne --no-password'],
  'user delete': ['administration', 'etcdwire user delete anne'],
  'user get': ['administration', 'etcdwire user get anne'],
  'user list': ['administration', 'etcdwire user list'],
  'user passwd': ['administration', 'echo "$PASSWORD" | etcdwire user passwd anne'],
  'user grant-role': ['administration', 'etcdwire user grant-role anne reader'],
  'user revoke-role': ['administration', 'etcdwire user revoke-role anne reader'],
  'role add': ['administration', 'etcdwire role add reader'],
  'role delete': ['administration', 'etcdwire role delete reader'],
  'role get': ['administration', 'etcdwire role get reader'],
  'role list': ['administration', 'etcdwire role list'],
  'role grant-permission': ['administration', 'etcdwire role grant-permission reader read config/ --prefix'],
  'role revoke-permission': ['administration', 'etcdwire role revoke-permission reader config/ --prefix'],
  'auth enable': ['administration', 'etcdwire auth enable'],
  'auth disable': ['administration', 'etcdwire auth disable --user root:PASSWORD'],
  'auth status': ['administration', 'etcdwire auth status'],
  call: [
    'calling-any-rpc-and-decoding-bytes',
    `etcdwire call KV/Range '{"key": "config/color"}'`,
    'etcdwire call Status',
  ],
  list: ['calling-any-rpc-and-decoding-bytes', 'etcdwire list', 'etcdwire list -w json'],
  describe: ['calling-any-rpc-and-decoding-bytes', 'etcdwire describe KV/Txn', 'etcdwire describe --template Put'],
  decode: ['calling-any-rpc-and-decoding-bytes', 'etcdwire decode PutRequest 0a0161 120131'],
  trace: [
    'seeing-the-wire',
    'etcdwire trace -- put a 1',
    'etcdwire trace --html lock.html -- lock jobs -- true',
    'etcdwire trace --serve -- lock jobs -- ./report.sh',
    "etcdwire trace --html locks.html --beside 'etcdctl lock jobs true' -- lock jobs -- true",
    'etcdwire trace --serve -- etcdctl lock jobs true',
  ],
  proxy: [
    'seeing-any-program',
    'etcdwire proxy --listen http://127.0.0.1:23790 --serve',
    'etcdwire proxy --record traffic.pcapng --quiet',
    "etcdwire proxy --fault 'drop-answer rpc=Put prefix=jobs/ times=1'",
  ],
  show: [
    'seeing-any-program',
    'etcdwire show traffic.pcapng --rpc Put,Txn --prefix jobs/',
    'etcdwire show traffic.pcapng --html traffic.html',
    'etcdwire show before.pcapng after.pcapng --html difference.html',
  ],
  replay: [
    'replaying-a-recording',
    'etcdwire replay traffic.pcapng',
    'etcdwire replay traffic.pcapng --test traffic.test.ts',
    'etcdwire replay traffic.pcapng --against-server --endpoints 127.0.0.1:2379',
  ],
  completion: [
    'completion',
    'source <(etcdwire completion bash)',
    'etcdwire completion fish > ~/.config/fish/completions/etcdwire.fish',
  ],
  help: ['the-command-line', 'etcdwire help lease grant'],
  version: ['the-command-line', 'etcdwire version'],
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
    if (section === undefined) throw new Error(`src/cli/examples.ts has no example for ${name}`);
    const lines = examples.map((example) => `  ${example}\n`).join('');
    each.addHelpText(
      'after',
      `\nExamples:\n${lines}\nMore in docs/command-line.md#${section} of the package etcdwire.`,
    );
  }
}
