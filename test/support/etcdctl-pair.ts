import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../packages/cli/src/program.js';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { startEtcd } from '../../scripts/etcd.js';
import { Client, prefix } from '../../src/index.js';
import type { RunningEtcd } from '../../src/testing/index.js';
import { enableAuth, FAST_PASSWORDS, ROOT } from './auth-etcd.js';
import { PROGRAM } from './cli.js';
import { HERE } from './tls/secure-etcd.js';

/** A command line that both programs run. */
export interface Line {
  /** The arguments, separated by spaces. Text in single quotes is one argument. */
  readonly line: string;
  /** The arguments, instead of those in `line`. {ENDPOINT} stands for the endpoint of the server. */
  readonly args?: readonly string[];
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Ends both programs once their output matches. Without it, both programs must end by themselves. */
  readonly until?: RegExp;
  /** Runs etcdwire as a process, because it runs a program whose output the test cannot see otherwise. */
  readonly process?: boolean;
  /** Leaves out --user, or names another user. */
  readonly user?: string;
  /** Changes the server before the line runs. */
  readonly prepare?: (client: Client) => Promise<unknown>;
  /** Whether the texts on standard error may differ. Default false. */
  readonly otherStderr?: boolean;
}

export interface Ran {
  readonly code: number | null;
  /** Standard output as Latin-1, so that it shows every byte. */
  readonly stdout: string;
  readonly stderr: string;
}

/** The revision, IDs and texts in which two equal servers differ. `NAMES` gives the name of each. */
const CAPTURED: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/lease ([0-9a-f]{16}) granted/, 'LEASE'],
  [/Member +([0-9a-f]{9,16}) added/, 'MEMBER'],
  [/^(?:jobs|name)\/([0-9a-f]{9,16})$/m, 'CONTENDER'],
];

/** Durations, sizes and the order of members by their IDs, which differ at each run. */
const VARYING: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/\b(?:\d+m)?[\d.]+(?:ns|Â?µs|ms|s)\b(?=$|"| \||\n)/gm, 'TOOK'],
  // Leases of 1000 s lose a second now and then.
  [/(remaining\(|"ttl":|"TTL" : )99\d/g, '$1REMAINING'],
  [/"(m0=[^,"]+),(m9=[^,"]+)"/g, '"$2,$1"'],
  [/"dbSize(InUse)?":\d+/g, '"dbSize$1":SIZE'],
  [/"raft(Applied)?Index":\d+/g, '"raft$1Index":INDEX'],
  [/"(DBSize|DBSizeInUse|RaftIndex|RaftAppliedIndex)" : \d+/g, '"$1" : NUMBER'],
];

/** One of two equal servers with TLS and authentication, and one of the two programs. */
export class Side {
  readonly #etcd: RunningEtcd;
  readonly #authority: string | undefined;
  readonly #flags: readonly string[];
  readonly #captured = new Map<string, string>();
  readonly #folder: string;

  /**
   * `authority` is the certificate of the authority, which is also in the file that `flags` name. Undefined if the server
   * has no TLS and no authentication.
   */
  constructor(etcd: RunningEtcd, authority: string | undefined, flags: readonly string[], folder: string) {
    this.#folder = folder;
    this.#etcd = etcd;
    this.#authority = authority;
    this.#flags = flags;
  }

  /** What the store and the list of users contain. */
  async state(): Promise<unknown> {
    await using client = this.#client();
    const { kvs, header } = await client.range(prefix(''));
    const keys = kvs.map((kv) => [kv.key, kv.text(), kv.version, kv.modRevision, (kv.lease ?? 0n) === 0n].join());
    const { users } = await client.raw.auth.userList({});
    return { revision: String(header.revision), keys, users };
  }

  /** Runs the real etcdctl. */
  async etcdctl(given: Line): Promise<Ran> {
    const line = this.#withOwnVariables(given);
    await this.#prepare(line);
    return this.#normalized(await ranProcess(this.#etcd.etcdctl as string, this.#argsOf(line), line));
  }

  /** Runs etcdwire in the mode of etcdctl. */
  async etcdwire(given: Line): Promise<Ran> {
    const line = this.#withOwnVariables(given);
    await this.#prepare(line);
    const args = ['--etcdctl', ...this.#argsOf(line)];
    if (line.process) return this.#normalized(await ranProcess(process.execPath, [PROGRAM, ...args], line));
    return this.#normalized(await ranHere(args, line));
  }

  async #prepare({ prepare }: Line): Promise<void> {
    if (prepare === undefined) return;
    await using client = this.#client();
    await prepare(client);
  }

  #client(): Client {
    const { endpoints } = this.#etcd;
    const secure = { tls: { ca: this.#authority as string }, auth: ROOT };
    return new Client({ endpoints, ...(this.#authority === undefined ? {} : secure) });
  }

  #withOwnVariables(line: Line): Line {
    const own = Object.entries(line.env ?? {}).map(([name, value]) => [name, this.#withEndpoint(value)] as const);
    return { ...line, env: Object.fromEntries(own) };
  }

  #withEndpoint(text: string): string {
    return text.replaceAll('{ENDPOINT}', new URL(this.#etcd.endpoints[0] as string).host);
  }

  #argsOf({ line, args, user = `${ROOT.username}:${ROOT.password}` }: Line): string[] {
    if (args !== undefined) return args.map((arg) => this.#withEndpoint(arg));
    const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word = '']) => quoted ?? word);
    const named = words.map((word) =>
      word.replace(/\{(\w+)\}/g, (_, name) => this.#captured.get(name) ?? this.#folder),
    );
    const login = user === '' ? [] : ['--user', user];
    const own = line.includes('--endpoints') ? [] : ['--endpoints', this.#etcd.endpoints[0] as string];
    const [command = '', ...rest] = named;
    // The flags come first, so that a line may end with "--" and a program.
    return [...own, ...this.#flags, ...login, command, ...rest];
  }

  #normalized({ code, stdout, stderr }: Ran): Ran {
    for (const [pattern, name] of CAPTURED) {
      const id = pattern.exec(stdout)?.[1];
      if (id !== undefined) this.#captured.set(name, id);
    }
    return { code, stdout: this.#withNames(stdout), stderr: this.#withNames(stderr) };
  }

  #withNames(text: string): string {
    let named = text
      .replaceAll(this.#folder, 'FOLDER')
      .replaceAll(`:${new URL(this.#etcd.endpoints[0] as string).port}`, ':PORT');
    for (const [name, id] of this.#captured)
      named = named.replaceAll(id, name).replaceAll(String(BigInt(`0x${id}`)), name);
    for (const [pattern, replacement] of VARYING) named = named.replace(pattern, replacement);
    // etcdctl logs JSON, and etcdwire explains failures in lines of its own.
    return named.replace(/^(?:\{"level":|etcdwire: ).*\n/gm, '');
  }
}

/** Two equal servers, and the two programs that the test compares. */
interface Pair {
  readonly sides: readonly [Side, Side];
  readonly close: () => Promise<void>;
}

/**
 * Starts two servers that have equal IDs, so that their answers are equal, too. They have TLS and authentication, unless
 * `isPlain` is true. Resolves with undefined if there is no etcdctl 3.6.
 */
export async function startPair({ isPlain = false } = {}): Promise<Pair | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-pair-'));
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const authority = isPlain ? undefined : await Authority.create();
  const certificate = await authority?.issue(HERE);
  const tls = certificate && {
    certFile: file('cert.pem', certificate.cert),
    keyFile: file('key.pem', certificate.key),
  };
  // The ID of a member depends on its peer URL. No other member connects to it.
  const peer = 'http://127.0.0.1:2';
  const args = [FAST_PASSWORDS, `--initial-advertise-peer-urls=${peer}`, `--initial-cluster=m0=${peer}`];
  const start = (): Promise<RunningEtcd> => startEtcd({ tls, args, version: '3.6' });
  const servers = [await start(), await start()] as const;
  const close = async (): Promise<void> => {
    for (const each of servers) await each.close();
    rmSync(folder, { recursive: true });
  };
  if (servers[0].etcdctl === undefined || servers[0].members.length === 0) {
    await close();
    return undefined;
  }
  if (authority !== undefined)
    for (const { endpoints } of servers) {
      await using client = new Client({ endpoints, tls: { ca: authority.cert } });
      await enableAuth(client);
    }
  const flags = authority === undefined ? [] : ['--cacert', file('ca.pem', authority.cert)];
  const [one, other] = ['one', 'other'].map((name) => mkdtempSync(join(folder, name))) as [string, string];
  return {
    sides: [new Side(servers[0], authority?.cert, flags, one), new Side(servers[1], authority?.cert, flags, other)],
    close,
  };
}

/**
 * A program that hangs is ended, and its result differs from that of the other program. On a busy machine, etcdctl may
 * need several seconds to start.
 */
const LIMIT_MS = 60_000;

/**
 * Returns the environment variables of a line. The limits of a connection and of a call are longer than those of etcdctl,
 * for the same reason as `LIMIT_MS`. etcdctl refuses a limit that comes in both ways.
 */
function variablesOf({ env = {} }: Line, args: readonly string[]): Readonly<Record<string, string>> {
  const limits = ['dial-timeout', 'command-timeout'].filter((flag) => !args.some((arg) => arg.startsWith(`--${flag}`)));
  const longer = limits.map((flag) => [`ETCDCTL_${flag.toUpperCase().replace('-', '_')}`, '40s'] as const);
  return { ...Object.fromEntries(longer), ...env };
}

/** Environment variables of etcdctl that the machine may have would change the results. */
function environmentOf(line: Line, args: readonly string[]): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('ETCDCTL_'));
  return { ...Object.fromEntries(others), ...variablesOf(line, args) };
}

async function ranProcess(program: string, args: readonly string[], line: Line): Promise<Ran> {
  const child = spawn(program, args, { env: environmentOf(line, args), timeout: LIMIT_MS, killSignal: 'SIGKILL' });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('latin1').on('data', (text: string) => {
    stdout += text;
    if (line.until?.test(stdout)) child.kill('SIGKILL');
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  // A program that ends early does not read its input.
  child.stdin.on('error', () => {});
  // `watch -i` ends with its input, so the input must not end before the output is complete.
  if (line.until === undefined) child.stdin.end(line.stdin ?? '');
  else child.stdin.write(line.stdin ?? '');
  const [code] = await new Promise<[number | null]>((resolve) => child.once('close', (value) => resolve([value])));
  return { code: line.until === undefined ? code : null, stdout, stderr };
}

/** Runs etcdwire in this process, because starting Node.js for each line takes long. */
async function ranHere(args: readonly string[], line: Line): Promise<Ran> {
  const interrupted = new AbortController();
  let [stdout, stderr] = ['', ''];
  const writes = (encoding: BufferEncoding, take: (text: string) => void) => ({
    write: (data: string | Uint8Array): void => take(Buffer.from(data as string).toString(encoding)),
  });
  const stdin = async function* (): AsyncGenerator<Uint8Array, void> {
    if (line.stdin !== undefined) yield Buffer.from(line.stdin);
    // The input of a line with `until` stays open until the program ends.
    if (line.until !== undefined) await new Promise(() => {});
  };
  const timeout = setTimeout(() => interrupted.abort('SIGTERM'), LIMIT_MS);
  const [before, variables] = [{ ...process.env }, variablesOf(line, args)];
  Object.assign(process.env, variables);
  try {
    const code = await run(args, {
      stdin: stdin(),
      stdout: writes('latin1', (text) => {
        stdout += text;
        if (line.until?.test(stdout)) interrupted.abort('SIGTERM');
      }),
      stderr: writes('utf8', (text) => {
        stderr += text;
      }),
      interrupted: interrupted.signal,
    });
    return { code: line.until === undefined ? code : null, stdout, stderr };
  } finally {
    clearTimeout(timeout);
    interrupted.abort('SIGTERM');
    for (const name of Object.keys(variables)) if (before[name] === undefined) delete process.env[name];
    Object.assign(process.env, before);
  }
}
