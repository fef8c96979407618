import type { Command } from 'commander';
import { ResponseOp, TxnRequest, TxnResponse } from '../../gen/etcdserverpb/rpc.js';
import { toJson } from '../../protobuf/json.js';
import { textOf } from '../../runtime/bytes.js';
import { readText } from '../connection.js';
import { contextOf, withClient } from '../context.js';
import { type Io, readAll } from '../io.js';
import { bytesAs, messageFrom } from '../json-text.js';
import { asText } from '../output.js';

interface TxnFlags {
  readonly text?: boolean;
}

export function addTxnCommand(program: Command, io: Io): void {
  program
    .command('txn')
    .argument('<file>', "etcdserverpb.TxnRequest in JSON, as etcd's gateway takes it; - is standard input")
    .option('--text', 'keys and values are text, not base64')
    .description('runs a transaction; ends with 0 whichever list of operations ran')
    .action(async (file: string, { text = false }: TxnFlags, command: Command) => {
      const context = contextOf(io, command);
      const json = file === '-' ? textOf(await readAll(io)) : readText(file);
      const { bytesFromJson, bytesToJson } = bytesAs(text);
      const request = messageFrom(TxnRequest, json, file === '-' ? 'standard input' : file, { bytesFromJson });
      const response = await withClient(context, (client) => client.raw.kv.txn(request, context.call));
      if (context.out.format === 'json') return context.out.json(toJson(TxnResponse, response, bytesToJson));
      context.out.line(response.succeeded ? 'SUCCESS' : 'FAILURE');
      for (const each of response.responses) context.out.json(toJson(ResponseOp, each, asText));
    });
}
