import type { Command } from 'commander';
import {
  type CallOptions,
  checkReads,
  Event,
  EventType,
  type Init,
  type JsonValue,
  type KeyValue,
  KeyValueMessage,
  methods,
  type PutResponse,
  type RangeRequest,
  RangeResponse,
  type Raw,
  ResponseOp,
  TxnRequest,
  TxnResponse,
  textOf,
  textOrBase64,
  toJson,
  type WireRange,
  wireOf,
} from '../../../../src/internal.js';
import { base64Option, bytesAs, messageFrom } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { kubernetesValue } from '../inspect/index.js';
import { type Io, readAll } from '../io.js';
import { leaseHex, type Output } from '../output.js';
import { printCall } from '../print-call.js';
import { defineDel, defineGet, definePut, type KeyFlags, putRequest } from './key-flags.js';

export function addKeyCommands(program: Command, io: Io): void {
  defineGet(program, async (request, flags, command) => get(contextOf(io, command), request, flags));
  definePut(program, async (key, value, flags, command) => put(contextOf(io, command), key, value, flags));
  defineDel(program, async (range, flags, command) => del(contextOf(io, command), range, flags, command));
  program
    .command('txn')
    .argument('[file]', 'etcdserverpb.TxnRequest in JSON, or the text that etcdctl txn reads; default: standard input')
    .addOption(base64Option())
    .option('-i, --interactive', 'print what to type on standard input next')
    .description('run a transaction; exits with 0 whether its conditions held or not')
    .action(async (file: string | undefined, flags: KeyFlags, command: Command) => {
      await txn(contextOf(io, command), file ?? '-', flags);
    });
}

async function get(context: Context, request: Init<RangeRequest>, flags: KeyFlags): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.kv.range(request, call));
  const { countOnly, printValueOnly } = flags;
  if (out.etcdctl !== undefined) return out.etcdctl.keys(response, { countOnly, valueOnly: printValueOnly });
  if (printValueOnly && out.isHex) for (const { value } of response.kvs) out.line(out.keyText(value));
  else if (printValueOnly) for (const { value } of response.kvs) out.bytes(Buffer.concat([value, Buffer.from('\n')]));
  else if (out.format === 'json') out.json(toJson(RangeResponse, response));
  else if (countOnly) out.line(String(response.count));
  else if (flags.keysOnly && out.format === 'simple') for (const { key } of response.kvs) out.line(out.keyText(key));
  else printKeys(out, response.kvs);
}

async function put(context: Context, key: string, value: string | undefined, flags: KeyFlags): Promise<void> {
  const { io, out } = context;
  // Read the value after `withClient` has asked for a missing password, because both come from standard input.
  const run = async ({ kv }: Raw, call: CallOptions): Promise<PutResponse> => {
    const bytes = flags.ignoreValue || value !== undefined ? undefined : await readAll(io);
    if (bytes?.length === 0) io.etcdctl?.refuse('emptyValue');
    return kv.put(putRequest(key, bytes ?? value, flags), call);
  };
  await printCall(context, methods.kv.put, run, ({ prevKv }) => {
    out.line('OK');
    if (prevKv !== undefined) printKeys(out, [prevKv]);
  });
}

async function del(
  context: Context,
  range: WireRange,
  { prevKv = false, range: isSure = false }: KeyFlags,
  command: Command,
): Promise<void> {
  const { io, out } = context;
  if (io.etcdctl !== undefined && !isSure) {
    const { warnOfRange } = await import('../lazy.js');
    await warnOfRange(io, command.args);
  }
  await printCall(context, methods.kv.deleteRange, { ...range, prevKv }, ({ deleted, prevKvs }) => {
    out.line(String(deleted));
    if (prevKvs.length > 0) printKeys(out, prevKvs);
  });
}

async function txn(context: Context, file: string, { base64 = false, interactive = false }: KeyFlags): Promise<void> {
  const { out, call } = context;
  const { bytesFromJson, bytesToJson } = bytesAs(base64);
  const response = await withClient(context, async (client) => {
    const { readTxn } = await import('../lazy.js');
    const request = await readTxn(context, file, interactive, (json, source) =>
      messageFrom(TxnRequest, json, source, { bytesFromJson }),
    );
    checkReads(request);
    return client.raw.kv.txn(request, call);
  });
  const print = (): void => {
    out.line(response.succeeded ? 'SUCCESS' : 'FAILURE');
    for (const each of response.responses) out.json(toJson(ResponseOp, each, textOrBase64));
  };
  out.response(TxnResponse, response, print, { bytesToJson });
}

/** Returns an event as JSON, as etcd's gateway does. The event of a deletion has only the key and the revision. */
export function eventJson(
  type: 'put' | 'delete',
  { keyBytes: key, modRevision, ...others }: Pick<KeyValue, 'keyBytes' | 'modRevision'>,
  prevKv?: KeyValue,
): Readonly<Record<string, JsonValue>> {
  const wireType = type === 'put' ? 'PUT' : 'DELETE';
  const kv = { ...KeyValueMessage.create(), ...(type === 'put' ? others : {}), key, modRevision };
  // toJson leaves out the type PUT, because PUT is the default.
  return { ...toJson(Event, { type: EventType[wireType], kv, prevKv: prevKv && wireOf(prevKv) }), type: wireType };
}

function printKeys(out: Output, kvs: readonly KeyValueMessage[]): void {
  if (out.format === 'table')
    out.table(
      ['KEY', 'VALUE', 'CREATED', 'MODIFIED', 'VERSION', 'LEASE'],
      kvs.map((kv) => rowOf(out, kv)),
    );
  else for (const { key, value } of kvs) out.line(`${out.keyText(key)}\n${out.keyText(value)}`);
}

function rowOf(
  out: Output,
  { key, value, createRevision, modRevision, version, lease }: KeyValueMessage,
): readonly string[] {
  const revisions = [createRevision, modRevision, version].map(String);
  return [out.keyText(key), valueText(out, key, value), ...revisions, lease === 0n ? '' : leaseHex(lease)];
}

/** Describes a value of Kubernetes that people cannot read. --hex and the other formats print the bytes. */
function valueText(out: Output, key: Uint8Array, value: Uint8Array): string {
  const described = out.isHex ? undefined : kubernetesValue(textOf(key), value, { json: false });
  return described === undefined ? out.keyText(value) : out.text(described);
}
