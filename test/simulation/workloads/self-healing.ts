import { SelfHealingSession } from '../../../src/locks/self-healing-session.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A registration, or its end. */
interface RegistrationOp {
  readonly type: 'register' | 'unregister';
  readonly afterMs: number;
  readonly key: number;
  readonly maxWaitMs: number | undefined;
}

/** Registers keys with a `SelfHealingSession`. The keys must exist again after the session has lost its lease. */
export const registrations: Workload<RegistrationOp> = {
  name: 'self-healing session',
  weight: 1,
  generate: (random) =>
    Array.from({ length: random.between(1, 2) }, () => ({
      ops: Array.from({ length: random.between(1, 5) }, () => ({
        type: random.pick(['register', 'register', 'unregister'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 6_000)]),
        key: random.below(2),
        maxWaitMs: random.chance(0.3) ? random.magnitude(1, 5_000) : undefined,
      })),
    })),
  begin: (context) => new Registrations(context),
};

class Registrations implements Player<RegistrationOp> {
  readonly #context: Context<RegistrationOp>;
  #values = 0;

  constructor(context: Context<RegistrationOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<RegistrationOp>): Promise<void> {
    const { world, waits, violated } = this.#context;
    const client = this.#context.client(index);
    let session: SelfHealingSession | undefined;
    waits(index, 'its session');
    while (session === undefined) {
      session = await SelfHealingSession.open(client, { ttl: 2 }).catch((error: unknown) => {
        expected(error);
        return undefined;
      });
      if (session === undefined) await world.sleep(100);
    }
    /**
     * The registered values by key. Null if the key is not registered. Undefined if the last call for the key failed.
     */
    const registered = new Map<string, string | null | undefined>();
    for (const { type, afterMs, key: number, maxWaitMs } of ops) {
      if (afterMs > 0) await world.sleep(afterMs);
      const key = `s/${index}/${number}`;
      waits(index, `${type} ${key}`);
      const value = `v${this.#values++}`;
      try {
        if (type === 'register') await session.register(key, value, { maxWaitMs });
        else await session.unregister(key, { maxWaitMs });
        registered.set(key, type === 'register' ? value : null);
      } catch (error) {
        expected(error);
        registered.set(key, undefined);
      }
    }
    await this.#context.healed();
    waits(index, 'its keys');
    // The session has time to heal, and to delete the keys that late puts have created.
    await world.sleep(30_000);
    if (session.signal.aborted) violated('session ended', String(session.signal.reason));
    for (const [key, value] of registered) {
      if (value === undefined) continue;
      const found = await client.get(key, { timeoutMs: 20_000 });
      const shown = found?.text() ?? null;
      if (shown !== value) violated('wrong registration', `${key} is ${shown} instead of ${value}`);
    }
    await session.close().catch(expected);
  }

  check(): void {}

  mayStay(): boolean {
    return false;
  }
}
