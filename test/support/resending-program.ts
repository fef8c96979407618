import { gateway } from '../../src/gateway.js';
import { Client, type EtcdError } from '../../src/index.js';
import { stm } from '../../src/recipes.js';

// This program writes through the HTTP/JSON gateway, in a browser page or under Deno. It must not use an API that only
// some runtimes have.

export interface Task {
  readonly endpoint: string;
  readonly key: string;
  /** `put` makes one put, and `increments` makes two increments with `stm`. */
  readonly what: 'put' | 'increments';
  /** The option `guardWrites` of the gateway transport. Default: that transport's default for the runtime. */
  readonly guardWrites?: boolean | undefined;
}

/** The result of each write. */
export type Ends = readonly ('resolved' | { readonly outcome: string; readonly problem: string })[];

async function perform({ endpoint, key, what, guardWrites }: Task): Promise<Ends> {
  const etcd = new Client({ endpoints: [endpoint], transport: gateway({ guardWrites }) });
  const ends: Ends[number][] = [];
  const end = (writing: Promise<unknown>): Promise<unknown> =>
    writing.then(
      () => ends.push('resolved'),
      ({ outcome, problem }: EtcdError) => ends.push({ outcome, problem }),
    );
  // The client makes other calls first, so that the runtime reuses a connection for the writes.
  for (let count = 0; count < 3; count += 1) await etcd.get('warm');
  if (what === 'put') await end(etcd.put(key, 'mine'));
  else
    for (let count = 0; count < 2; count += 1)
      await end(
        stm(etcd, async (tx) => {
          tx.put(key, String(Number((await tx.text(key)) ?? 0) + 1));
        }),
      );
  await etcd.close();
  return ends;
}

const { process } = globalThis as { readonly process?: { readonly argv: readonly string[] } };
Object.assign(globalThis, { perform });
// Deno passes the arguments of the program in `process`. A page has no `process`.
const task = process?.argv[2];
if (task !== undefined) console.log(JSON.stringify(await perform(JSON.parse(task) as Task)));
