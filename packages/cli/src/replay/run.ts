import {
  type CallStep,
  type Client,
  escapeControls,
  headerRevision,
  type JsonObject,
  type JsonValue,
  ManualClock,
  MemoryEtcd,
  type MemoryVersion,
  type RecordedStep,
  type Recording,
  type ReplayDifference,
  type ReplayOptions,
  replay,
} from '../../../../src/internal.js';
import { type Context, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { type Io, interruptedBy, linesOf } from '../io.js';
import { leftOutOf, RECORD_WITH_PROXY, readCapture } from '../proxy/read-capture.js';
import { writePrivateFile } from '../trace/private-files.js';
import { CallReader } from './calls.js';
import { type Plan, Planner } from './plan.js';
import { StepDescriber } from './step-text.js';
import { testFile } from './test-file.js';

export interface ReplayFlags {
  readonly againstServer?: true;
  readonly test?: string;
  readonly step?: true;
  readonly toRevision?: number;
  readonly speed?: number;
  readonly quiet?: true;
}

/** Replays a recording, or writes it as a test. Resolves with the exit code. */
export async function runReplay(file: string, flags: ReplayFlags, io: Io, context: Context): Promise<ExitCode> {
  const { recording, version, notes } = await readRecording(file);
  const steps = until(recording.steps, flags.toRevision);
  const cut: Recording = { ...recording, steps };
  const note = (text: string): void => void io.stderr.write(`etcdwire: ${escapeControls(text)}\n`);
  for (const text of notes) note(text);
  if (flags.againstServer !== undefined) for (const text of serverNotes(cut)) note(text);
  if (flags.test !== undefined) {
    const text = testFile(cut, version, file);
    if (flags.test === '-') context.out.bytes(new TextEncoder().encode(text));
    else await writePrivateFile(flags.test, '--test', text);
    if (flags.test !== '-') note(`the test is in ${flags.test}; run it with: npx vitest run ${flags.test}`);
    return ExitCode.OK;
  }
  const differences = await play(cut, version, flags, io, context);
  const count = new Set(differences.map(({ step }) => step)).size;
  note(`steps: ${steps.length}, steps whose answers differ: ${count}`);
  return count === 0 ? ExitCode.OK : ExitCode.FAILED;
}

/** @throws CliError if the file is not a recording, or contains no call. */
async function readRecording(file: string): Promise<Plan> {
  const calls = new CallReader();
  const gaps = await readCapture(file, calls, true);
  if (calls.events.length === 0) {
    const reason =
      gaps.encrypted > 0 ? `its connections use TLS; ${RECORD_WITH_PROXY}` : 'record a program while it calls etcd';
    throw new CliError(ExitCode.DATA, `${file}: the recording contains no calls of etcd: ${reason}`);
  }
  const plan = new Planner(calls).plan();
  const gapNotes = [
    ...(gaps.isCut ? ['the recording ends in the middle of a packet; the replay ends there'] : []),
    ...leftOutOf(gaps),
    ...[...calls.leftOut].map(([reason, count]) => `left out: ${count} ${reason}`),
  ];
  return { ...plan, notes: [...gapNotes, ...plan.notes] };
}

/** Returns the steps up to a revision. */
function until(steps: readonly RecordedStep[], revision: number | undefined): readonly RecordedStep[] {
  if (revision === undefined) return steps;
  const end = steps.findIndex((step) => {
    const answer = 'answer' in step ? step.answer : 'receive' in step ? step.receive : undefined;
    return answer !== undefined && headerRevision(answer) > BigInt(Math.floor(revision));
  });
  return end < 0 ? steps : steps.slice(0, end);
}

/** The changes of a recording that a server other than a new one in memory cannot repeat. */
function serverNotes({ before, steps }: Recording): readonly string[] {
  const { keys = [], leases = {} } = before;
  const isSeeded = keys.length > 0 || Object.keys(leases).length > 0;
  const hasLogin = steps.some(isLeftOutAtServer);
  const addsUser = steps.some((step) => isUserAdd(step) && !isLeftOutAtServer(step));
  return [
    ...(isSeeded ? ['the replay does not write the keys and leases from before the recording at the server'] : []),
    ...(hasLogin
      ? [
          'left out: logins, new passwords and the user root, because the recording contains no passwords; all calls are made by --user',
        ]
      : []),
    ...(addsUser ? ['the replay adds users without passwords, because the recording contains no passwords'] : []),
  ];
}

/** Narrows a step to the call that adds a user. */
function isUserAdd(step: RecordedStep): step is CallStep {
  return 'call' in step && step.call === 'Auth/UserAdd';
}

/** Whether a step needs a password, which a recording does not contain, or must be refused because it has no token. */
function isLeftOutAtServer(step: RecordedStep): boolean {
  if (!('call' in step)) return false;
  // If the replay added root without a password and then enabled authentication, etcd would let no user log in as root.
  if (isUserAdd(step) && step.request.name === 'root') return true;
  return /^Auth\/(?:Authenticate|UserChangePassword)$/.test(step.call) || /user name is empty$/.test(step.error ?? '');
}

/** Returns a step as the replay repeats it at a server: users get no passwords, because the recording contains none. */
function atServer(step: RecordedStep): RecordedStep {
  if (!isUserAdd(step)) return step;
  return { ...step, request: { name: step.request.name ?? '', options: { no_password: true } } };
}

async function play(
  recording: Recording,
  version: MemoryVersion | undefined,
  flags: ReplayFlags,
  io: Io,
  context: Context,
): Promise<readonly ReplayDifference[]> {
  if (flags.againstServer === undefined) {
    const clock = new ManualClock();
    const server = new MemoryEtcd({ clock, version });
    return print(recording, flags, io, context, (options) => replay(recording, server, { ...options, clock }));
  }
  const steps = recording.steps.filter((step) => !isLeftOutAtServer(step)).map(atServer);
  const possible = { ...recording, steps };
  const use = async (client: Client): Promise<readonly ReplayDifference[]> => {
    await client.raw.cluster.memberList({}, context.call); // Fails early if no member can be reached.
    const { speed } = flags;
    return print(possible, flags, io, context, (options) => replay(possible, client, { ...options, speed }));
  };
  return withClient(context, use, undefined, { maxRequestBytes: 2 ** 31 - 1 });
}

/** Replays a recording with `run`, and prints the steps and the differences. */
async function print(
  { steps }: Recording,
  flags: ReplayFlags,
  io: Io,
  { out }: Context,
  run: (options: ReplayOptions) => Promise<readonly ReplayDifference[]>,
): Promise<readonly ReplayDifference[]> {
  const describer = new StepDescriber();
  const enter = flags.step === undefined ? undefined : linesOf(io);
  if (enter !== undefined) io.stderr.write('etcdwire: press Enter for the next step\n');
  const show = (index: number, differences: readonly ReplayDifference[]): void => {
    const step = steps[index] as RecordedStep;
    const text = shortened(describer.describe(step));
    if (flags.quiet !== undefined && differences.length === 0) return;
    if (out.chosen === 'json') out.json(stepJson(index, step, text, differences));
    else for (const line of [text, ...differences.map(differenceText)]) out.line(escapeControls(line));
  };
  let printed = 0;
  const onStep = async (index: number, differences: readonly ReplayDifference[]): Promise<void> => {
    show(index, differences);
    printed += differences.length;
    await enter?.next();
  };
  const differences = await run({ onStep, signal: io.interrupted });
  // `run` ends early and does not reject.
  if (io.interrupted.aborted) throw interruptedBy(io);
  // Events that the recording lacks, as its end shows.
  for (const each of differences.slice(printed)) out.line(escapeControls(differenceText(each)));
  return differences;
}

function differenceText({ field, recorded, replayed }: ReplayDifference): string {
  return `              differs: ${field}: recorded ${valueText(recorded)}, now ${valueText(replayed)}`;
}

/** Maximum number of characters of a value in the output. */
const MAX_CHARS = 300;

function shortened(text: string): string {
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}… (${text.length} characters)`;
}

function valueText(value: unknown): string {
  return value === undefined ? 'nothing' : shortened(JSON.stringify(value));
}

function stepJson(
  index: number,
  step: RecordedStep,
  text: string,
  differences: readonly ReplayDifference[],
): JsonObject {
  const shown = differences.map(({ rpc, field, recorded, replayed }) => ({
    ...{ rpc, field, recorded: (recorded ?? null) as JsonValue, replayed: (replayed ?? null) as JsonValue },
  }));
  return { step: index, text: text.trim(), ...(step as unknown as JsonObject), differences: shown };
}
