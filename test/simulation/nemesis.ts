import { methods } from '../../src/gen/methods.js';
import type { Method } from '../../src/wire/protobuf/schema.js';
import { type CallFault, callFaultOf } from './call-faults.js';
import { CALL_FAULTS, type Fault, type FaultKind, type LockState } from './faults.js';
import type { SimulatedMember } from './member.js';
import type { Network } from './network.js';
import type { Process } from './process.js';
import { Strikes } from './strikes.js';
import type { World } from './world.js';

/** The methods that change the store. */
const WRITES: ReadonlySet<string> = new Set([
  methods.kv.put.path,
  methods.kv.deleteRange.path,
  methods.kv.txn.path,
  methods.lease.leaseGrant.path,
  methods.lease.leaseRevoke.path,
]);

/** Decides when the faults of a history strike, and makes them strike. */
export class Nemesis {
  /**
   * How many times each kind of fault has struck (key `kind`), and how many times it has struck in each state of a
   * contender (key `state, kind`).
   */
  readonly coverage = new Map<string, number>();
  readonly #world: World;
  readonly #network: Network;
  readonly #processes: readonly Process[];
  readonly #faults: readonly Fault[];
  readonly #strikes: Strikes;
  /** The faults that wait for the next call of each process. */
  readonly #armed = new Map<Process, Fault[]>();
  readonly #writes = new Map<Process, number>();
  readonly #entered = new Map<string, number>();
  /** The states of the contenders of each process, by contender. */
  readonly #states = new Map<object, { readonly process: number; state: LockState }>();
  /** The kinds of faults that have struck, by process. */
  readonly #kinds = new Map<number, Set<FaultKind>>();
  #isHealed = false;

  constructor(world: World, network: Network, processes: readonly Process[], faults: readonly Fault[]) {
    this.#world = world;
    this.#network = network;
    this.#processes = processes;
    this.#faults = faults;
    this.#strikes = new Strikes(world, network, faults);
    network.faultOf = (process, method) => this.#faultOf(process, method);
    for (const fault of faults) {
      const { trigger } = fault;
      if (trigger.on !== 'time') continue;
      world.at(world.now + trigger.ms, world.outside, 'fault:', fault.kind, () => this.#strike(fault));
    }
  }

  /** Records that a contender of a process has entered a state. Performs the faults that wait for this state. */
  enters(contender: object, process: number, state: LockState): void {
    const before = this.#states.get(contender);
    if (before?.state === state) return;
    this.#states.set(contender, { process, state });
    const id = `${process} ${state}`;
    const times = this.#entered.get(id) ?? 0;
    this.#entered.set(id, times + 1);
    this.count(`state ${state}`);
    for (const fault of this.#faults) {
      const { trigger } = fault;
      if (trigger.on !== 'state' || fault.process !== process || trigger.state !== state || trigger.nth !== times)
        continue;
      this.#world.note(`fault: ${fault.kind} because process ${process} is ${state}`);
      this.#strike(fault);
    }
  }

  /** Ends all faults. */
  heal(): void {
    this.#isHealed = true;
    this.#strikes.undoAll();
    this.#armed.clear();
    this.#network.heal();
    this.#world.timerLagMs = 0;
    // A stalled process goes on only at the end of its stall, because its events have been postponed until then.
    for (const process of this.#processes) {
      process.stop = undefined;
      process.end = undefined;
    }
  }

  /** Counts something for the table of coverage. */
  count(what: string): void {
    this.coverage.set(what, (this.coverage.get(what) ?? 0) + 1);
  }

  #strike(fault: Fault): void {
    if (this.#isHealed) return;
    const process = this.#processes[fault.process] as Process;
    if (process.isKilled) return;
    if ((CALL_FAULTS as readonly string[]).includes(fault.kind)) {
      this.#armed.set(process, [...(this.#armed.get(process) ?? []), fault]);
      return;
    }
    this.#struck(fault);
    const { members } = this.#network.cluster;
    this.#strikes.perform(fault, process, members[fault.member % members.length] as SimulatedMember);
  }

  #struck({ kind, process }: Fault): void {
    const before = this.#kinds.get(process) ?? new Set();
    this.#kinds.set(process, before);
    if (!before.has(kind)) {
      const world = this.#world;
      for (const fault of this.#faults) {
        const { trigger } = fault;
        if (trigger.on !== 'fault' || trigger.kind !== kind || fault.process !== process) continue;
        world.at(world.now + trigger.ms, world.outside, 'fault:', fault.kind, () => this.#strike(fault));
      }
    }
    before.add(kind);
    this.count(kind);
    for (const { state } of this.#states.values()) this.count(`${state}, ${kind}`);
  }

  /** Returns the fault of the next call of the process, or undefined. */
  #faultOf(process: Process, { path }: Method<unknown, unknown>): CallFault | undefined {
    const isWrite = WRITES.has(path);
    if (isWrite) {
      const nth = this.#writes.get(process) ?? 0;
      this.#writes.set(process, nth + 1);
      for (const fault of this.#faults) {
        const { trigger } = fault;
        if (trigger.on === 'write' && trigger.nth === nth && this.#processes[fault.process] === process)
          this.#strike(fault);
      }
    }
    const fault = this.#armed.get(process)?.shift();
    if (fault === undefined) return undefined;
    this.#struck(fault);
    this.#world.note(`fault: ${fault.kind} of ${path}`);
    return callFaultOf(fault);
  }
}
