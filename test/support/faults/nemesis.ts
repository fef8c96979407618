import { setTimeout as pause } from 'node:timers/promises';
import type { FaultyCluster } from './cluster.js';
import { between, pick } from './rounds.js';

type Random = () => number;

/** What a fault is done to. */
interface Victim {
  readonly cluster: FaultyCluster;
  /** Blocks the event loop of the clients. */
  readonly block: (ms: number) => void;
}

/** One fault, which may last until the cluster is healed. */
export interface Fault {
  readonly what: string;
  readonly make: (victim: Victim, random: Random) => Promise<void>;
}

/** Of a fault that goes on for a while. */
const LASTS_MS = [50, 3_000] as const;

const lasting = (random: Random): Promise<void> => pause(between(...LASTS_MS, random));

/** All that a client has to live through at any time, for a mix of them. */
export const FAULTS: readonly Fault[] = [
  {
    what: 'connections dropped',
    make: async ({ cluster: { proxies } }, random) => pick(proxies, random).dropConnections(),
  },
  { what: 'connections reset', make: async ({ cluster: { proxies } }, random) => pick(proxies, random).reset() },
  {
    what: 'resets every 5 ms',
    make: async ({ cluster: { proxies } }, random) => {
      for (let resets = Math.ceil(between(1, 100, random)); resets > 0; resets -= 1) {
        for (const proxy of proxies) proxy.reset();
        await pause(5);
      }
    },
  },
  {
    what: 'black hole',
    make: async ({ cluster: { proxies } }, random) => {
      pick(proxies, random).blackhole();
      await lasting(random);
    },
  },
  {
    what: 'one way only',
    make: async ({ cluster: { proxies } }, random) => {
      pick(proxies, random).oneWay(pick(['to-server', 'to-client'] as const, random));
      await lasting(random);
    },
  },
  {
    what: 'nothing read',
    make: async ({ cluster: { proxies } }, random) => {
      pick(proxies, random).pause();
      await lasting(random);
    },
  },
  {
    what: 'slices',
    make: async ({ cluster: { proxies } }, random) => {
      for (const proxy of proxies) proxy.slice(Math.ceil(between(0, 20, random)));
      await lasting(random);
    },
  },
  {
    what: 'delays',
    make: async ({ cluster: { proxies } }, random) => {
      for (const proxy of proxies) proxy.delay(between(0, 200, random));
      await lasting(random);
    },
  },
  {
    what: 'member killed',
    make: async ({ cluster: { members } }, random) => {
      const member = pick(members, random);
      await member.kill();
      await lasting(random);
    },
  },
  {
    what: 'leader killed',
    make: async ({ cluster: { cluster } }) => {
      // There is none while another fault takes the quorum.
      const leader = await cluster.leader({ timeoutMs: 1_000 }).catch(() => undefined);
      await leader?.kill();
    },
  },
  {
    what: 'quorum lost',
    make: async ({ cluster: { members } }, random) => {
      const survivor = pick(members, random);
      await Promise.all(members.filter((member) => member !== survivor).map((member) => member.kill()));
      await lasting(random);
    },
  },
  {
    what: 'member paused',
    make: async ({ cluster: { members } }, random) => {
      pick(members, random).pause();
      await lasting(random);
    },
  },
  {
    what: 'member partitioned',
    make: async ({ cluster: { cluster, members } }, random) => {
      await cluster.partition(pick(members, random));
      await lasting(random);
    },
  },
  { what: 'event loop blocked', make: async ({ block }, random) => block(between(50, 2_000, random)) },
];
