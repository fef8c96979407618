import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Line, type Ran, type Side, startPair } from '../../../test/support/etcdctl-pair.js';

// Runs the real etcdctl and the mode of etcdctl with odd values of each flag and of each environment variable, and
// compares the exit codes, the output and what the servers contain afterwards.

const BOOLEANS = ['1', 't', 'T', 'TRUE', 'true', 'True', '0', 'f', 'F', 'FALSE', 'false', 'False'] as const;
const NO_BOOLEANS = ['', 'yes', 'on', 'tRUE', ' true', 'true\n', '-1', '2', 'null'] as const;
const INTEGERS = [
  '0',
  '00',
  '1',
  '010',
  '0x2',
  '0b11',
  '0o2',
  '1_0',
  '0_2',
  '-5',
  '+2',
  '9223372036854775807',
] as const;
const NO_INTEGERS = ['', '_1', '1__0', '08', ' 2', '2\n', '1.5', '1e3', '9223372036854775808', '0x', 'F', '-'] as const;
const DURATIONS = ['0', '0s', '-5s', '+3s', '3000ms', '.5m', '3.s', '1h1m', '3000000us'] as const;
const NO_DURATIONS = ['', '5', '3S', ' 3s', '3s\n', '1d', 'inf', '-', 's', '1.2.3s'] as const;

/** Flags by type, with a command on which the flag has an effect, and whether the value must come with the flag. */
const OF_COMMANDS: readonly {
  readonly flag: string;
  readonly values: readonly string[];
  readonly command: readonly string[];
  readonly isBoolean?: boolean;
}[] = [
  ...['prefix', 'from-key', 'keys-only', 'print-value-only'].map((flag) => boolean(flag, 'get', 'p/')),
  boolean('count-only', 'get', 'p/1', '-w', 'fields'),
  ...['prev-kv', 'ignore-lease'].map((flag) => boolean(flag, 'put', 'p/1', 'new')),
  boolean('ignore-value', 'put', 'p/1'),
  ...['prev-kv', 'prefix', 'from-key', 'range'].map((flag) => boolean(flag, 'del', 'x')),
  boolean('keys', 'lease', 'timetolive', '1'),
  boolean('once', 'lease', 'keep-alive', '1'),
  boolean('physical', 'compaction', '1'),
  boolean('detail', 'user', 'get', 'nobody'),
  boolean('no-password', 'user', 'add', 'someone'),
  boolean('learner', 'member', 'add', 'm9'),
  boolean('cluster', 'endpoint', 'hashkv', '-w', 'table'),
  { flag: 'listen', values: ['1', 'True', '', 'no'], command: ['elect', 'name', 'value'], isBoolean: true },
  ...['limit', 'rev', 'min-create-rev', 'max-create-rev', 'min-mod-rev', 'max-mod-rev'].map((flag) =>
    integer(flag, 'get', 'p/1', 'p/9'),
  ),
  integer('rev', 'endpoint', 'hashkv', '-w', 'json'),
  ...['max-request-bytes', 'max-recv-bytes'].map((flag) => integer(flag, 'put', 'p/1', 'x')),
  ...['dial-timeout', 'keepalive-time', 'keepalive-timeout', 'command-timeout'].map((flag) => ({
    flag,
    values: [...DURATIONS, ...NO_DURATIONS],
    command: ['put', 'p/1', 'timed'],
  })),
  ...['hex', 'insecure-discovery'].map((flag) => boolean(flag, 'get', 'p/1')),
  // The server has no TLS, so that calls with TLS time out.
  ...['insecure-transport', 'insecure-skip-tls-verify'].map((flag) => ({
    flag,
    values: ['1', 'True', '0', 'F', '', 'no'],
    command: ['get', 'p/1', '--command-timeout=500ms'],
    isBoolean: true,
  })),
  texts('lease', ['', '0', '00', '-5', '0x1', ' 1', 'F', '8000000000000000'], 'put', 'p/1', 'leased'),
  texts('order', ['', ' ', 'Ascend', 'NONE', '1'], 'get', 'p/1', 'p/9'),
  texts('sort-by', ['', ' ', 'Value', 'mod', '0'], 'get', 'p/1', 'p/9'),
  texts('consistency', ['', 's', 'L', '0'], 'get', 'p/1'),
  texts('consistency', ['', 's', 'L', '0'], 'member', 'list'),
  texts('write-out', ['', ' ', 'Simple', 'json', 'JSON', '0'], 'get', 'p/1'),
  texts('peer-urls', ['', ' ', ','], 'member', 'add', 'm9'),
  texts('new-user-password', ['', ' ', '0'], 'user', 'add', 'anne'),
  texts('load', ['', 'S', '0'], 'check', 'perf'),
  ...['cacert', 'cert', 'key'].map((flag) => texts(flag, ['', ' '], 'get', 'p/1')),
  texts('user', ['', ':', ':pw', 'root:'], 'get', 'p/1'),
  texts('password', ['', 'pw'], 'get', 'p/1'),
  texts('discovery-srv', [''], 'get', 'p/1'),
  texts('discovery-srv-name', ['', 'x'], 'get', 'p/1'),
];

/** Lists of endpoints. {ENDPOINT} is the endpoint of the server. */
const ENDPOINTS = [
  ...['{ENDPOINT}', ' {ENDPOINT} ', '{ENDPOINT}\n', '\n{ENDPOINT}', '"{ENDPOINT}"', 'http://{ENDPOINT}'],
  ...['{ENDPOINT},', ',{ENDPOINT}', '{ENDPOINT}, {ENDPOINT}', '{ENDPOINT},{ENDPOINT}', '{ENDPOINT}\r\n'],
] as const;

/** Command lines that no type of a flag covers. */
const OTHERS: readonly Line[] = [
  ...[
    ['get', 'p/1', ''],
    ['get', 'p/1', 'p/2', '--prefix=false'],
    ['get', '', ''],
    ['del', 'p/1', ''],
    ['del', 'p/1', '', '--range'],
    ['role', 'grant-permission', 'r', 'read', 'p/1', ''],
    ['put', 'p/1', ''],
    ['put', 'p/1', '-5'],
    ['put', '-5', 'x'],
    ['put', '--', 'p/1', '-5'],
    ['get', '-.5'],
    ['get', 'p/1', '--limit', '-5'],
    ['get', 'p/', '--prefix', '--prefix=false'],
    ['get', 'p/', '--prefix=false', '--prefix'],
    ['get', 'p/', '--prefix', 'false'],
    ['get', 'p/1', '--nonsense=3'],
    ['get', 'p/1', '-w=json'],
    ['get', 'p/1', '-w='],
    ['get', 'p/1', '-w', ''],
    ['get', 'p/1', '--hex', '--hex=F'],
    ['get', 'p/1', 'p/9', '--limit=1', '--limit=2'],
    ['get', 'p/1', '-wjson', '-wsimple'],
    ['get', 'p/1', '--insecure-transport'],
    ['get', 'p/1', '--insecure-transport=0', '--insecure-transport'],
    ['get', 'p/1', '--user', '', '--password', 'pw'],
    ['get', 'p/1', '--max-request-bytes=10', '--max-recv-bytes=5'],
    ['lease', 'grant', '-5'],
    ['lease', 'grant', '--', '-5'],
    ['lease', 'grant', '0x5'],
    ['lease', 'revoke', '0x1'],
    ['compaction', '0x1'],
    ['user', 'add', 'anne', '--new-user-password', ''],
    ['user', 'add', 'ben:pw', '--new-user-password', ''],
    ['user', 'add', 'carl:pw', '--new-user-password', 'other'],
    ['user', 'add', 'dora', '--no-password', '--new-user-password', 'pw'],
    ['user', 'add', 'emil:pw', '--no-password=false'],
    ['user', 'add', 'fred', '--interactive=F', '--no-password=T'],
    ['user', 'add', ''],
    ['help'],
    ['help', 'get'],
    ['help', 'lease', 'grant'],
    ['help', 'nonsense'],
    ['lease', 'help'],
  ].map((args) => ({ line: args.join(' '), args: ['--endpoints', '{ENDPOINT}', ...args] })),
  { line: 'two --endpoints', args: ['--endpoints', '127.0.0.1:1', '--endpoints', '{ENDPOINT}', 'get', 'p/1'] },
  { line: 'no endpoint', args: ['--endpoints', '', 'get', 'p/1'] },
  { line: 'an empty list, then an endpoint', args: ['--endpoints', '', '--endpoints', '{ENDPOINT}', 'get', 'p/1'] },
  ...[
    'get "p/1" --limit=0x1',
    'get p/ --prefix=yes',
    'get p/ --prefix=F',
    'get p/1 ""',
    'put p/1 -5',
    'del p/1 ""',
  ].map((request) => ({
    line: `txn with ${request}`,
    args: ['--endpoints', '{ENDPOINT}', 'txn'],
    stdin: `\n${request}\n\n\n`,
  })),
];

/** Variables with values that etcdctl reads. It ignores other values, which this program refuses. */
const VARIABLES: readonly Readonly<Record<string, string>>[] = [
  ...['', ...BOOLEANS].map((ETCDCTL_HEX) => ({ ETCDCTL_HEX })),
  ...['', '1', 'T'].map((ETCDCTL_INSECURE_TRANSPORT) => ({ ETCDCTL_INSECURE_TRANSPORT })),
  ...['', '0', 'F'].flatMap((value) => [
    { ETCDCTL_INSECURE_SKIP_TLS_VERIFY: value },
    { ETCDCTL_INSECURE_DISCOVERY: value },
    { ETCDCTL_DEBUG: value },
  ]),
  ...['', '0', '-5s', '.5m'].flatMap((value) => [
    { ETCDCTL_DIAL_TIMEOUT: value },
    { ETCDCTL_KEEPALIVE_TIME: value },
    { ETCDCTL_KEEPALIVE_TIMEOUT: value },
  ]),
  ...['', '0', '-5', '0x100000', '1_000_000'].map((ETCDCTL_MAX_REQUEST_BYTES) => ({ ETCDCTL_MAX_REQUEST_BYTES })),
  ...['', 'json'].map((ETCDCTL_WRITE_OUT) => ({ ETCDCTL_WRITE_OUT })),
  ...['ETCDCTL_CACERT', 'ETCDCTL_CERT', 'ETCDCTL_KEY', 'ETCDCTL_USER', 'ETCDCTL_PASSWORD'].map((name) => ({
    [name]: '',
  })),
  ...['ETCDCTL_DISCOVERY_SRV', 'ETCDCTL_DISCOVERY_SRV_NAME'].map((name) => ({ [name]: '' })),
];

function boolean(flag: string, ...command: string[]) {
  return { flag, values: [...BOOLEANS, ...NO_BOOLEANS], command, isBoolean: true };
}

function integer(flag: string, ...command: string[]) {
  return { flag, values: [...INTEGERS, ...NO_INTEGERS], command };
}

function texts(flag: string, values: readonly string[], ...command: string[]) {
  return { flag, values, command };
}

/** The first flag of a type and command runs with all values, and the others with every third one. */
function linesOf({ flag, values, command, isBoolean = false }: (typeof OF_COMMANDS)[number], index: number): Line[] {
  const line = (...flags: string[]): Line => ({
    line: [...command, ...flags].join(' '),
    args: ['--endpoints', '{ENDPOINT}', ...command, ...flags],
    stdin: '',
  });
  const chosen = values.filter((_, at) => values.length < 12 || index === 0 || at % 3 === index % 3);
  const bare = isBoolean ? [line(`--${flag}`)] : [line(`--${flag}`), line(`--${flag}`, chosen[0] ?? '')];
  return [...bare, ...chosen.map((value) => line(`--${flag}=${value}`))];
}

/** Why the tests do not run. */
const NO_ETCDCTL = 'there is no etcdctl 3.6 on this machine';

let pair: Awaited<ReturnType<typeof startPair>>;
beforeAll(async () => {
  pair = await startPair({ isPlain: true });
  for (const args of [
    ['put', 'p/1', '1'],
    ['put', 'p/2', '2'],
    ['put', 'p/3', '3'],
  ])
    for (const side of pair?.sides ?? [])
      await side.etcdwire({ line: '', args: ['--endpoints', '{ENDPOINT}', ...args] });
});
afterAll(() => pair?.close());

/** etcdctl prints its help on standard output if it refuses a flag. */
function shown({ code, stdout }: Ran, line: Line) {
  return {
    line: line.line,
    env: line.env,
    code,
    stdout: code === 0 && line.args?.includes('help') !== true ? stdout : '',
  };
}

async function compare(sides: readonly [Side, Side], lines: readonly Line[]): Promise<void> {
  for (const line of lines) {
    const [one, other] = sides;
    const [theirs, ours] = await Promise.all([one.etcdctl(line), other.etcdwire(line)]);
    const [theirState, ourState] = await Promise.all([one.state(), other.state()]);
    expect.soft({ ...shown(ours, line), state: ourState }).toEqual({ ...shown(theirs, line), state: theirState });
  }
}

it.for(OF_COMMANDS.map((each, index) => [each.command.join(' '), each.flag, linesOf(each, index)] as const))(
  '`%s` takes the same values of --%s as etcdctl',
  { timeout: 300_000 },
  async ([, , lines], { skip }) => {
    if (pair === undefined) return skip(NO_ETCDCTL);
    await compare(pair.sides, lines);
  },
);

it('etcdwire takes the same lists of endpoints as etcdctl, in a flag and in the variable', async ({ skip }) => {
  if (pair === undefined) return skip(NO_ETCDCTL);
  const lines = ENDPOINTS.flatMap((list): Line[] => [
    { line: `--endpoints ${list}`, args: ['--endpoints', list, 'put', 'p/1', 'x'] },
    { line: `ETCDCTL_ENDPOINTS=${list}`, args: ['put', 'p/1', 'x'], env: { ETCDCTL_ENDPOINTS: list } },
  ]);
  await compare(pair.sides, lines);
}, 300_000);

it('etcdwire reads the variables of etcdctl as etcdctl does', async ({ skip }) => {
  if (pair === undefined) return skip(NO_ETCDCTL);
  const args = ['--endpoints', '{ENDPOINT}', 'get', 'p/1'];
  await compare(
    pair.sides,
    VARIABLES.map((env) => ({ line: 'get p/1', args, env })),
  );
}, 300_000);

it('etcdwire has the exit code and the effect of etcdctl for odd arguments', async ({ skip }) => {
  if (pair === undefined) return skip(NO_ETCDCTL);
  await compare(
    pair.sides,
    OTHERS.map((each) => ({ stdin: '', ...each })),
  );
}, 300_000);

it.for([[[]], [['member']], [['lease']], [['auth']]] as const)(
  'etcdwire prints its help on standard output for the command without subcommand %o, as etcdctl does',
  async ([args], { skip }) => {
    if (pair === undefined) return skip(NO_ETCDCTL);
    const line: Line = { line: args.join(' '), args, stdin: '' };
    const [one, other] = pair.sides;
    const [theirs, ours] = await Promise.all([one.etcdctl(line), other.etcdwire(line)]);
    for (const { code, stdout, stderr } of [theirs, ours]) {
      expect.soft([code, stderr]).toEqual([0, '']);
      expect.soft(stdout.length).toBeGreaterThan(100);
    }
  },
);
