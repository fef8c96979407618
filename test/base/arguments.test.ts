import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client, EtcdError } from '../../src/index.js';
import { lead, Session, withLock } from '../../src/locks.js';
import { stm, WorkQueue } from '../../src/recipes.js';
import { MemoryEtcd, memory } from '../../src/testing/index.js';
import { CALLS, type PublicCall, rightArguments, type World } from '../support/public-calls.js';
import { hasParameters, publicFunctions } from '../support/public-functions.js';
import { rpcsUnderTest, underTest } from '../support/rpcs-under-test.js';
import { type Kind, WRONG, type WrongName } from '../support/wrong-values.js';

// Plain JavaScript has no compiler that refuses a wrong argument. Every function of the package refuses it at once with
// reason `InvalidInput`, names the argument, sends nothing, and changes nothing.

let world: World;
beforeAll(async () => {
  const server = new MemoryEtcd();
  const etcd = new Client({ transport: memory(server), interceptors: [rpcsUnderTest] });
  world = { server, etcd, session: await Session.open(etcd, { ttl: 600 }) };
});
afterAll(() => world.etcd.close());

/** Constructors that the declarations leave out, or mark as internal. */
const INTERNAL_CLASSES = [
  ...['CachedRange', 'EtcdCluster', 'EtcdMember', 'FaultProxy', 'Mirror', 'Watch', 'Leases', 'Session'],
  ...[
    'SelfHealingSession',
    'StmTransaction',
    'Held',
    'Leadership',
    'Job',
    'ReentrantHeld',
    'ServiceView',
    'Listener',
    'Tick',
  ],
  ...['DnsFollower', 'Snapshot', 'PutEvent', 'KeyValue', 'KeyRange', 'TypedKeys', 'TypedKeyValue', 'Auth', 'Cluster'],
  ...['Maintenance', 'MemoryMember'],
];

/** Functions with parameters that this test leaves out. */
const INTERNAL = new Set([
  ...INTERNAL_CLASSES.map((name) => `new ${name}`),
  // The constructors of errors never throw, because the thrown error would hide the error to be reported.
  ...['new EtcdError', 'new EtcdNotFoundError'],
  // The package exports only types with these names.
  ...['ResponseHeader', 'StatusResponse', 'DowngradeInfo'].flatMap((name) => [`${name}.write`, `${name}.read`]),
  // Methods that the declarations leave out, or mark as internal.
  'SelfHealingSession.registerOwn',
  ...['CachedRange.apply', 'TypedKeys.cachedBy'],
  'SelfHealingSession.unregisterOwn',
  'StmTransaction.commit',
  ...['CoreClient.beforeClose', 'CoreClient.scanPages', 'Held.limit', 'Session.localQueue'],
  ...[
    'Session.losesWith',
    'Leases.withDefaultTimeout',
    ...['connect', 'advertise', 'find', 'page', 'onRaftChange'].map((name) => `MemoryMember.${name}`),
  ],
]);

type Outcome = { readonly error: unknown } | 'accepted' | 'pending';

/** Calls the function. Reports whether it has refused its arguments within one turn of the event loop. */
async function outcomeOf(action: () => unknown): Promise<Outcome> {
  const settled = (async (): Promise<Outcome> => {
    try {
      await action();
      return 'accepted';
    } catch (error) {
      return { error };
    }
  })();
  return Promise.race([settled, turn().then(() => turn('pending' as const))]);
}

/** The wrong arguments of a call, each with the name of the argument that the error must name. */
function* wrongArguments({ args }: PublicCall): Generator<{
  readonly argument: string;
  readonly what: WrongName;
  readonly give: (given: unknown[]) => void;
}> {
  for (const [index, [argument, kind]] of Object.entries(args).entries()) {
    for (const what of wrongFor(kind)) {
      yield {
        argument,
        what,
        give: (given) => {
          given[index] = WRONG[what]();
        },
      };
    }
    for (const [name, field] of Object.entries(kind.fields ?? {})) {
      for (const what of wrongFor(field)) {
        // If an option is undefined, the function uses the default, as if the option was left out.
        if (what === 'undefined') continue;
        yield {
          argument: argument === 'options' ? name : `${argument === 'txn' ? '' : `${argument}.`}${name}`,
          what,
          give: (given) => {
            given[index] = { ...(kind.right as object), [name]: WRONG[what]() };
          },
        };
      }
    }
  }
}

function wrongFor(kind: Kind): WrongName[] {
  return (Object.keys(WRONG) as WrongName[]).filter((what) => !kind.accepts.includes(what));
}

function problemOf(outcome: Outcome, names: readonly string[]): string | undefined {
  if (typeof outcome === 'string') return outcome;
  const { error } = outcome;
  if (!(error instanceof EtcdError)) return `threw ${String(error)}`;
  if (error.reason !== 'InvalidInput') return `reason ${error.reason}: ${error.message}`;
  return names.some((name) => error.message.startsWith(name) && /^[:.[]/.test(error.message.slice(name.length)))
    ? undefined
    : `does not name it: ${error.message}`;
}

/** The functions whose names the errors of these methods contain, because the methods pass their options on. */
const DELEGATES: Readonly<Record<string, string>> = {
  'TypedKeys.create': 'createKey',
  'TypedKeys.modify': 'modifyKey',
  'TypedKeys.opGet': 'get',
  'TypedKeys.opPut': 'put',
};

/** Returns the name of the function without its class. The class CoreClient calls itself Client in its errors. */
function methodOf(name: string): string {
  return name.replace(/^(?:new (?:Core)?|.*\.)/, '');
}

describe.each(Object.entries(CALLS))('%s', (name, entry) => {
  test('refuses every wrong argument, sends nothing, changes nothing, and works afterwards', async () => {
    const call = (await entry.make(world)) as (...given: unknown[]) => unknown;
    const { revision } = world.server;
    const problems: string[] = [];
    const sent: string[] = [];
    for (const { argument, what, give } of wrongArguments(entry)) {
      const given = rightArguments(entry, world);
      give(given);
      const outcome = await outcomeOf(() => underTest.run(sent, () => call(...given)));
      // The error for an empty options object names the option that is missing.
      const names = [argument, ...Object.keys(entry.args[argument]?.fields ?? {})];
      const problem = problemOf(outcome, names);
      if (problem !== undefined) problems.push(`${argument} = ${what}: ${problem}`);
    }
    expect(problems).toEqual([]);
    expect(sent).toEqual([]);
    expect(world.server.revision).toBe(revision);
    if (entry.isRemote) return;
    const outcome = await outcomeOf(() => call(...rightArguments(entry, world)));
    expect(outcome).not.toMatchObject({ error: { reason: 'InvalidInput' } });
    if (typeof outcome !== 'string') expect(outcome.error).toBeInstanceOf(EtcdError);
  });

  test('has exactly the options that this test knows', async () => {
    const call = (await entry.make(world)) as (...given: unknown[]) => unknown;
    for (const [index, [argument, { fields, right }]] of Object.entries(entry.args).entries()) {
      if (fields === undefined) continue;
      const given = rightArguments(entry, world);
      given[index] = { ...(right as object), frobnicate: 1 };
      const outcome = await outcomeOf(() => call(...given));
      expect(outcome).toMatchObject({ error: { reason: 'InvalidInput' } });
      const { message } = (outcome as { readonly error: EtcdError }).error;
      const what = argument === 'options' ? ` for [\\w./]*${DELEGATES[name] ?? methodOf(name)}` : '';
      expect(message).toMatch(new RegExp(`^${argument}: got the unknown option frobnicate${what}; allowed: `, 'i'));
      expect(message.split('; allowed: ').at(-1)?.split(', ').sort()).toEqual(Object.keys(fields).sort());
    }
  });
});

test('this test covers every public function that has parameters', async () => {
  const found = [...(await publicFunctions())].filter(([, code]) => hasParameters(code)).map(([name]) => name);
  expect(found.filter((name) => !INTERNAL.has(name) && CALLS[name] === undefined)).toEqual([]);
  expect(Object.keys(CALLS).filter((name) => !found.includes(name))).toEqual([]);
  expect([...INTERNAL].filter((name) => !found.includes(name))).toEqual([]);
});

describe('a function that calls a function of the program', () => {
  test('accepts it as the last argument, after options or without options', async () => {
    const { etcd } = world;
    expect(await withLock(etcd, 'last', () => 1)).toBe(1);
    expect(await withLock(etcd, 'last', undefined, () => 2)).toBe(2);
    expect(await withLock(etcd, 'last', { ttl: 5 }, () => 3)).toBe(3);
    expect(await lead(etcd, 'last', ({ held }) => held.key)).toMatch(/^last\//);
  });

  test('says where it belongs when options come after it', async () => {
    const { etcd } = world;
    const options = { ttl: 5 } as never;
    const wrong = 'got an object (Object); allowed: a function, as the last argument';
    await expect(withLock(etcd, 'last', (() => 1) as never, options)).rejects.toThrow(`action: ${wrong}`);
    await expect(stm(etcd, (() => 1) as never, options)).rejects.toThrow(`apply: ${wrong}`);
    await expect(new WorkQueue(etcd, 'q').work((() => {}) as never, options)).rejects.toThrow(`handler: ${wrong}`);
  });
});
