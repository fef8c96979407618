import { randomBytes } from 'node:crypto';
import { get as getHttp } from 'node:http';
import { get as getHttps } from 'node:https';
import { type ClientOptions, concatBytes, type TlsOptions } from '../../../../src/internal.js';
import { type Context, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { interruptedBy } from '../io.js';
import { Progress } from '../progress.js';
import { type CheckFlags, checkNoKeys, cleanUp } from './check-flags.js';

/** The loads of `etcdctl check datascale`: the number of keys, and how many writes may be in progress at once. */
const SCALES = {
  s: { keys: 10_000, clients: 50 },
  m: { keys: 100_000, clients: 200 },
  l: { keys: 1_000_000, clients: 500 },
  xl: { keys: 3_000_000, clients: 1_000 },
} as const;
const [KEY_BYTES, VALUE_BYTES] = [512, 512];

/** Writes keys, and prints how much the memory of the first member has grown. */
export async function checkDataScale(context: Context, flags: CheckFlags): Promise<void> {
  const { io, out, call } = context;
  const { keys, clients } = SCALES[flags.load];
  const options = await context.clientOptions();
  const mib = await withClient(context, async (client) => {
    await checkNoKeys(context, client, flags.prefix, 'datascale');
    const [endpoint = ''] = client.endpoints;
    const before = await residentBytes(endpoint, options, io.interrupted);
    if (out.format !== 'json' || out.etcdctl !== undefined)
      out.line(
        `Start data scale check for work load [${keys} key-value pairs, ${KEY_BYTES + VALUE_BYTES} bytes per ` +
          `key-value, ${clients} concurrent clients].`,
      );
    const progress = new Progress(io);
    const start = Buffer.from(flags.prefix);
    const value = new Uint8Array(VALUE_BYTES);
    let written = 0;
    const write = async (): Promise<void> => {
      while (written < keys && !io.interrupted.aborted) {
        written += 1;
        progress.show(() => `${written} of ${keys} keys`);
        await client.put(concatBytes(start, randomBytes(KEY_BYTES)), value, call);
      }
    };
    try {
      await Promise.all(Array.from({ length: clients }, write));
      progress.erase();
      if (io.interrupted.aborted) throw interruptedBy(io);
      return ((await residentBytes(endpoint, options, io.interrupted)) - before) / 2 ** 20;
    } finally {
      progress.erase();
      if (!io.interrupted.aborted) await cleanUp(context, client, flags);
    }
  });
  if (out.etcdctl === undefined && out.format === 'json') out.json({ keys, memoryMib: Number(mib.toFixed(2)) });
  else out.line(`PASS: Approximate system memory used : ${mib.toFixed(2)} MB.`);
}

/** Reads the memory of a member from its metrics. @throws CliError if the member has no such metric. */
async function residentBytes(endpoint: string, { tls }: ClientOptions, signal: AbortSignal): Promise<number> {
  const { ca, cert, key } = (tls ?? {}) as TlsOptions;
  const url = `${endpoint}/metrics`;
  const text = await new Promise<string>((resolve, reject) => {
    const given = Object.entries({ ca, cert, key }).filter(([, pem]) => pem !== undefined);
    const options = { signal, agent: false, ...Object.fromEntries(given) };
    const request = endpoint.startsWith('https:') ? getHttps(url, options) : getHttp(url, options);
    request.on('error', reject).on('response', (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      response.on('error', reject).on('end', () => resolve(body));
    });
  }).catch((error: Error) => {
    throw new CliError(ExitCode.UNAVAILABLE, `cannot read ${url}: ${error.message}`);
  });
  const [, bytes] = /^process_resident_memory_bytes (\S+)$/m.exec(text) ?? [];
  if (bytes === undefined)
    throw new CliError(ExitCode.FAILED, `${url} has no metric process_resident_memory_bytes; is it an etcd member?`);
  return Number(bytes);
}
