import {
  AlarmType,
  type HashKVResponse,
  type Interceptor,
  MoveLeaderResponse,
  methods,
  type StatusResponse,
  saveSnapshot,
} from '../../../../src/internal.js';
import type { Answer } from '../ask-all.js';
import { type Context, withClient } from '../context.js';
import { ExitCode } from '../exit-code.js';
import { notingResponses } from '../noted-responses.js';
import { hexId } from '../output.js';
import { badArgs, ETCDCTL_EXIT, EtcdctlError, goErrorText } from './errors.js';
import { goDuration } from './go-format.js';
import type { EndpointAnswer, EtcdctlPrinter } from './printer.js';

// This file does what etcdctl does with the answers of endpoints.

/** The printer of the mode of etcdctl, in which alone the functions of this file run. */
function printerOf({ out }: Context): EtcdctlPrinter {
  return out.etcdctl as EtcdctlPrinter;
}

/** Returns the answers without failures. Prints the failures. @throws the failure if the login has failed. */
function withoutFailures<T>(
  { io }: Context,
  answers: readonly Answer<T>[],
  text: (answer: Answer<T>, problem: string) => string,
): readonly EndpointAnswer<T>[] {
  const succeeded: EndpointAnswer<T>[] = [];
  for (const answer of answers) {
    const { endpoint, error, failure, result } = answer;
    // etcdctl ends if it cannot log in.
    if (failure !== undefined && io.etcdctl?.failsAtLogin(error)) throw error;
    if (failure !== undefined) io.stderr.write(`${text(answer, goErrorText(error))}\n`);
    else succeeded.push({ endpoint, result: result as T });
  }
  return succeeded;
}

/** Returns a function for `withoutFailures` that says what the answer of an endpoint would have contained. */
function failedToGet(what: 'status' | 'hash'): (answer: Answer<unknown>, problem: string) => string {
  return ({ endpoint }, problem) => `Failed to get the ${what} of endpoint ${endpoint} (${problem})`;
}

export function printStatus(context: Context, answers: readonly Answer<StatusResponse>[]): ExitCode {
  const whole = withoutFailures(context, answers, failedToGet('status'));
  printerOf(context).status(whole);
  return whole.length < answers.length ? ETCDCTL_EXIT.ERROR : ExitCode.OK;
}

export function printHashes(context: Context, answers: readonly Answer<HashKVResponse>[]): ExitCode {
  printerOf(context).hashes(withoutFailures(context, answers, failedToGet('hash')));
  const failed = answers.findLast(({ failure }) => failure !== undefined);
  if (failed !== undefined) throw new EtcdctlError(ETCDCTL_EXIT.ERROR, goErrorText(failed.error));
  return ExitCode.OK;
}

export function printDefragmented(context: Context, answers: readonly Answer<unknown>[]): ExitCode {
  const whole = withoutFailures(
    context,
    answers,
    ({ endpoint, tookMs }, problem) =>
      `Failed to defragment etcd member[${endpoint}]. took ${goDuration(tookMs)}. (${problem})`,
  );
  for (const { endpoint, tookMs, failure } of answers)
    if (failure === undefined)
      context.out.line(`Finished defragmenting etcd member[${endpoint}]. took ${goDuration(tookMs)}`);
  return whole.length < answers.length ? ETCDCTL_EXIT.ERROR : ExitCode.OK;
}

/** Prints the health of endpoints from their alarms. @throws EtcdctlError if an endpoint is not healthy. */
export function printHealth(context: Context, answers: readonly Answer<readonly AlarmType[]>[]): ExitCode {
  const health = answers.map(({ endpoint, result = [], error, tookMs }) => {
    const problem = error === undefined ? alarmText(result) : goErrorText(error);
    return { endpoint, health: problem === '', took: goDuration(tookMs), error: problem };
  });
  printerOf(context).health(health, context.io.stderr);
  if (health.every(({ error }) => error === '')) return ExitCode.OK;
  throw new EtcdctlError(ETCDCTL_EXIT.ERROR, 'unhealthy cluster');
}

function alarmText(alarms: readonly AlarmType[]): string {
  if (alarms.length === 0) return '';
  const names = alarms.map((alarm) =>
    alarm === AlarmType.NOSPACE ? 'NOSPACE ' : alarm === AlarmType.CORRUPT ? 'CORRUPT ' : 'UNKNOWN ',
  );
  return `Active Alarm(s): ${names.join('')}`;
}

/** Moves the leadership, which needs the endpoint of the leader. @throws EtcdctlError without this endpoint. */
export async function moveLeader(context: Context, target: bigint): Promise<void> {
  const { out, call, endpointNames } = context;
  await withClient(context, async ({ raw, endpoints }) => {
    for (const endpoint of endpoints) {
      const { header, leader } = await raw.maintenance.status({}, { ...call, endpoint });
      if (header?.memberId !== leader) continue;
      const response = await raw.maintenance.moveLeader({ targetId: target }, { ...call, endpoint });
      return out.response(MoveLeaderResponse, response, () =>
        out.line(`Leadership transferred from ${hexId(leader)} to ${hexId(target)}`),
      );
    }
    throw badArgs(`no leader endpoint given at [${endpointNames.join(' ')}]`);
  });
}

/** Saves a snapshot. etcdctl limits the time only if the user gives a limit. */
export async function saveAsEtcdctl(context: Context, file: string): Promise<void> {
  const { out, endpointNames, commandTimeoutMs, call } = context;
  let version = '';
  const interceptor: Interceptor = {
    stream: (streamCall, handler, next) => {
      if (streamCall.method.path !== methods.maintenance.snapshot.path) return next(streamCall, handler);
      const noting = notingResponses(handler, (response) => {
        version = (response as { readonly version?: string }).version || version;
      });
      return next(streamCall, noting);
    },
  };
  const save = async (client: Parameters<Parameters<typeof withClient>[1]>[0]): Promise<void> => {
    const [endpoint = '', ...more] = client.endpoints;
    if (more.length > 0) {
      const problem = `snapshot must be requested to one selected node, not multiple [${endpointNames.join(' ')}]`;
      throw new EtcdctlError(ETCDCTL_EXIT.INTERRUPTED, problem);
    }
    await saveSnapshot(client, endpoint, file, { signal: call.signal, timeoutMs: commandTimeoutMs });
    out.line(`Snapshot saved at ${file}`);
    if (version !== '') out.line(`Server version ${version}`);
  };
  await withClient(context, save, undefined, { interceptors: [interceptor] });
}
