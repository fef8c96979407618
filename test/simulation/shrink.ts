import type { Plan } from './plan.js';
import { PLAIN_CLUSTER } from './traits.js';

/** The number of orders of events that `shrink` tries for each smaller plan. */
const SCHEDULES = 3;

/**
 * Finds a smaller plan that fails in the same way. `fails` plays a plan, and resolves with whether the plan fails in
 * this way. First leaves out faults, operations and options, and then simplifies the numbers that are left.
 */
export async function shrink(
  plan: Plan,
  fails: (plan: Plan) => Promise<boolean>,
  maxRuns: number,
): Promise<{ readonly plan: Plan; readonly runs: number }> {
  let best = plan;
  let runs = 0;
  for (let shrunk = true; shrunk && runs < maxRuns; ) {
    shrunk = false;
    for (const candidate of smaller(best)) {
      for (let schedule = 0; schedule < SCHEDULES && runs < maxRuns; schedule += 1) {
        const tried = { ...candidate, schedule: ((best.schedule ?? 0) + schedule) % 16 };
        runs += 1;
        if (!(await fails(tried))) continue;
        best = tried;
        shrunk = true;
        break;
      }
      if (shrunk || runs >= maxRuns) break;
    }
  }
  return { plan: best, runs };
}

/** Yields plans that are simpler in one part. */
function* smaller(plan: Plan): Generator<Plan> {
  const { faults, processes, members, delays, timerLagMs } = plan;
  for (const part of withoutParts(faults)) yield { ...plan, faults: part };
  for (const [name, has] of Object.entries(plan.traits ?? {}))
    if (has) yield { ...plan, traits: { ...PLAIN_CLUSTER, ...plan.traits, [name]: false } };
  for (const [index, process] of processes.entries()) {
    const others = (ops: readonly unknown[]): Plan => ({
      ...plan,
      processes: processes.map((each, at) => (at === index ? { ...each, ops } : each)),
    });
    if (process.ops.length === 0) continue;
    for (const part of withoutParts(process.ops)) yield others(part);
  }
  if (delays !== 'none') yield { ...plan, delays: 'none' };
  if (delays !== 'none' && delays !== 'short') yield { ...plan, delays: 'short' };
  if (timerLagMs > 0) yield { ...plan, timerLagMs: 0 };
  if (plan.options !== undefined) yield { ...plan, options: undefined };
  if (plan.rates !== undefined) yield { ...plan, rates: undefined };
  if (plan.maxInFlight !== undefined) yield { ...plan, maxInFlight: undefined };
  if (plan.balance !== 'in-order') yield { ...plan, balance: 'in-order' };
  if (plan.bytes !== undefined) {
    yield { ...plan, bytes: undefined };
    if (plan.bytes.isSplit) yield { ...plan, bytes: { ...plan.bytes, isSplit: false } };
    if (plan.bytes.bytesPerMs !== undefined) yield { ...plan, bytes: { ...plan.bytes, bytesPerMs: undefined } };
    if (plan.bytes.slowOpenings > 0) yield { ...plan, bytes: { ...plan.bytes, slowOpenings: 0 } };
  }
  if (members > 1) yield { ...plan, members: members - 1 };
  for (const [index, process] of processes.entries())
    for (const [at, op] of process.ops.entries())
      for (const simpler of simplerValues(op)) {
        const ops = process.ops.map((each, position) => (position === at ? simpler : each));
        yield { ...plan, processes: processes.map((each, place) => (place === index ? { ...each, ops } : each)) };
      }
  for (const [index, fault] of faults.entries())
    for (const ms of simplerNumbers(fault.ms))
      yield { ...plan, faults: faults.map((each, at) => (at === index ? { ...each, ms } : each)) };
}

/**
 * Yields the empty list, and then the list without each half, without each quarter, and so on to the list without each
 * item.
 */
function* withoutParts<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let size = items.length; size >= 1; size = Math.floor(size / 2))
    for (let at = 0; at < items.length; at += size) yield [...items.slice(0, at), ...items.slice(at + size)];
}

/** Yields values like `value` with one simpler part. */
function* simplerValues(value: unknown): Generator<unknown> {
  if (typeof value === 'number') yield* simplerNumbers(value);
  else if (value === true) yield false;
  else if (Array.isArray(value)) {
    yield* withoutParts(value);
    for (const [index, item] of value.entries())
      for (const simpler of simplerValues(item)) yield value.map((each, at) => (at === index ? simpler : each));
  } else if (typeof value === 'object' && value !== null)
    for (const [name, part] of Object.entries(value))
      for (const simpler of simplerValues(part)) yield { ...value, [name]: simpler };
}

function* simplerNumbers(value: number): Generator<number> {
  if (value === 0) return;
  yield 0;
  if (value > 8) yield Math.floor(value / 2);
  const rounded = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  if (rounded !== value) yield rounded;
}
