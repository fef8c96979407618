import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { type Child, startChild } from './child.js';

// A transcript is the output of etcdctl for a list of commands at one server. Two servers with the same behavior have
// equal transcripts, because a transcript contains no number that differs from server to server.

/**
 * The arguments of one etcdctl command, and optionally its standard input. `<1>` in an argument stands for the first ID
 * in the transcript so far, `<2>` for the second, and so on.
 */
export type Step = readonly string[] | { readonly args: readonly string[]; readonly input: string };

/** Where to run etcdctl. */
export interface Site {
  readonly etcdctl: string;
  readonly endpoint: string;
  /** The folder in which etcdctl runs. Default: the folder of this process. */
  readonly folder?: string | undefined;
}

/** Texts that differ from run to run, each with the text that replaces it in a transcript. */
const VARIABLE: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/"ts":"[^"]*"/g, '"ts":"TIME"'],
  [/"target":"[^"]*"/g, '"target":"TARGET"'],
  [/(?:https?:\/\/)?(?:127\.0\.0\.1|localhost):\d+/g, 'URL'],
  [/\b(?:\d+(?:\.\d+)?(?:ns|µs|ms)|\d+\.\d+s)\b/g, 'DURATION'],
  [/(?<="took":)"[^"]*"/g, '"DURATION"'],
  [/(?<="size":)"[^"]*"/g, '"SIZE"'],
  [/(?<="Raft(?:Applied)?Index" : )\d+/g, 'INDEX'],
  [/(?<="DBSize(?:InUse)?" : )\d+/g, 'SIZE'],
  [/remaining\(\d+s\)/g, 'remaining(DURATION)'],
];

/** Unsigned 64-bit IDs of members, clusters and leases, as decimal or hexadecimal numbers. */
const ID = /\b(?:[0-9a-f]{13,16}|\d{17,20})\b/g;

/** Returns the text with the same placeholder for all IDs, and without the texts that differ from run to run. */
export function withoutIds(output: string): string {
  return normalized(output).replace(ID, '<id>');
}

function normalized(output: string): string {
  return VARIABLE.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), output);
}

/** Runs the commands one after another. Resolves with one text for each command. */
export async function transcript({ etcdctl, endpoint, folder }: Site, steps: readonly Step[]): Promise<string[]> {
  const ids: string[] = [];
  const numbered = (id: string): string => {
    if (!ids.includes(id)) ids.push(id);
    return `<${ids.indexOf(id) + 1}>`;
  };
  const printed: string[] = [];
  for (const step of steps) {
    const { args, input } = 'args' in step ? step : { args: step, input: '' };
    const actual = args.map((arg) => arg.replace(/<(\d+)>/g, (_, number: string) => ids[Number(number) - 1] ?? ''));
    const { code, stdout, stderr } = await run(etcdctl, [`--endpoints=${endpoint}`, ...actual], input, folder);
    const output = [...(code === 0 ? [] : [`exit code ${code}\n`]), stdout, stderr].join('');
    printed.push(`$ etcdctl ${args.join(' ')}\n${normalized(output).replace(ID, numbered)}`);
  }
  return printed;
}

/** Starts etcdctl with standard input, for a command that runs until the test ends. */
export function startEtcdctl({ etcdctl, endpoint }: Site, ...args: string[]): Child {
  return startChild(etcdctl, [`--endpoints=${endpoint}`, ...args], { stdin: 'pipe' });
}

/** Resolves with the next lines that a program prints. */
export async function lines(child: Child, count: number): Promise<string[]> {
  const printed: string[] = [];
  while (printed.length < count) printed.push(await child.line());
  return printed;
}

interface Result {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Time in milliseconds after which a command that hangs is killed. */
const TIMEOUT_MS = 120_000;

async function run(program: string, args: readonly string[], input: string, cwd: string | undefined): Promise<Result> {
  const child = spawn(program, args, { cwd, timeout: TIMEOUT_MS, killSignal: 'SIGKILL' });
  // A command may exit before it has read its input.
  child.stdin.on('error', () => {}).end(input);
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve);
  });
  const [code, stdout, stderr] = await Promise.all([exited, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}
