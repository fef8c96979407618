import type { MemoryMember } from '../../../../src/internal.js';
import type { PlayClient } from './play-client.js';
import type { Playground } from './playground.js';

// What a visitor can do. Each action has a name, which is a part of the page's address.

const BLOCK_MS = 8_000;

/** What a visitor can do with a client or a member. */
interface ActionOf<Target> {
  readonly id: string;
  /** Groups the buttons: the actions of the group `break` appear on request. */
  readonly group: 'lock' | 'data' | 'break';
  readonly title: string;
  readonly label: (target: Target) => string;
  readonly act: (target: Target, playground: Playground) => void;
  readonly isEnabled: (target: Target) => boolean;
  /** Whether the effect of the action lasts until the next press. */
  readonly isPressed?: (target: Target) => boolean;
}

export const CLIENT_ACTIONS: readonly ActionOf<PlayClient>[] = [
  {
    id: 'lock',
    group: 'lock',
    title: 'Takes the lock "jobs", or waits for it in the queue',
    label: () => 'Lock',
    act: ({ app }) => app.lock(),
    isEnabled: (client) => runs(client) && client.app.token === undefined && !client.app.isWaiting,
  },
  {
    id: 'unlock',
    group: 'lock',
    title: 'Releases the lock, leaves the queue, or forgets the token of a lost lock',
    label: ({ app }) =>
      app.isWaiting ? 'Leave the queue' : app.oldToken === undefined ? 'Unlock' : 'Forget the token',
    act: ({ app }) => app.unlock(),
    isEnabled: (client) =>
      runs(client) && (client.app.token !== undefined || client.app.oldToken !== undefined || client.app.isWaiting),
  },
  {
    id: 'write',
    group: 'data',
    title: 'Writes the key "ledger". A client that took the lock writes with its fencing token',
    label: () => 'Write',
    act: ({ app }) => app.write(),
    isEnabled: (client) => runs(client) && client.app.lastWrite !== 'pending',
  },
  {
    id: 'read',
    group: 'data',
    title: 'Reads the key "ledger". The answer is the latest committed entry, or there is no answer',
    label: () => 'Read',
    act: ({ app }) => app.read('linearizable'),
    isEnabled: runs,
  },
  {
    id: 'read-local',
    group: 'data',
    title: 'Reads what the member has of the key "ledger", without asking the other members: a serializable read',
    label: () => 'Read locally',
    act: ({ app }) => app.read('serializable'),
    isEnabled: runs,
  },
  {
    id: 'watch',
    group: 'data',
    title: 'Watches the key "ledger", or stops to watch it',
    label: ({ app }) => (app.isWatching ? 'Stop watching' : 'Watch'),
    act: ({ app }) => app.watch(),
    isEnabled: runs,
    isPressed: ({ app }) => app.isWatching,
  },
  {
    id: 'kill',
    group: 'break',
    title: 'Kills the process, or starts a new one',
    label: ({ isKilled }) => (isKilled ? 'Start' : 'Kill'),
    act: (client) => (client.isKilled ? client.restart() : client.kill()),
    isEnabled: () => true,
  },
  {
    id: 'pause',
    group: 'break',
    title: 'Stops the process, as SIGSTOP or a sleeping laptop does, or lets it continue',
    label: ({ isPaused }) => (isPaused ? 'Continue' : 'Pause'),
    act: (client) => (client.isPaused ? client.resume() : client.pause()),
    isEnabled: ({ isKilled }) => !isKilled,
    isPressed: ({ isPaused }) => isPaused,
  },
  {
    id: 'block',
    group: 'break',
    title: 'Keeps the event loop of the process busy for 8 s',
    label: () => 'Block for 8 s',
    act: (client) => client.block(BLOCK_MS),
    isEnabled: runs,
  },
  {
    id: 'wire',
    group: 'break',
    title: 'Breaks the connection and refuses new ones, until the button is pressed again',
    label: ({ isCut }) => (isCut ? 'Mend the wire' : 'Cut the wire'),
    act: (client) => (client.isCut ? client.mendWire() : client.cutWire()),
    isEnabled: ({ isKilled }) => !isKilled,
    isPressed: ({ isCut }) => isCut,
  },
  {
    id: 'lose',
    group: 'break',
    title: 'etcd applies the next write of this client, but the connection breaks before the answer arrives',
    label: () => 'Lose the next answer',
    act: (client) => client.toggleLostAnswer(),
    isEnabled: ({ isKilled }) => !isKilled,
    isPressed: ({ losesAnswer }) => losesAnswer,
  },
];

export const MEMBER_ACTIONS: readonly ActionOf<MemoryMember>[] = [
  {
    id: 'kill',
    group: 'break',
    title: 'Kills the member, or starts it again',
    label: ({ running }) => (running ? 'Kill' : 'Start'),
    act: (member, playground) => playground.toggleMember(member),
    isEnabled: () => true,
  },
  {
    id: 'cut',
    group: 'break',
    title: 'Cuts the network between the member and the other members. Clients still reach the member',
    label: ({ isCutOff }) => (isCutOff ? 'Heal' : 'Cut off'),
    act: (member, playground) => playground.toggleCut(member),
    isEnabled: () => true,
    isPressed: ({ isCutOff }) => isCutOff,
  },
];

/** The action of the operator: it has no target. */
export const COMPACT = 'etcd.compact';

/** Returns the function that performs the action with a name such as `A.lock`. Undefined if there is no such action. */
export function actionOf(playground: Playground, name: string): (() => void) | undefined {
  if (name === COMPACT) return playground.isCluster ? undefined : () => playground.compact();
  const [target = '', id = ''] = name.split('.');
  const client = playground.clients.find((each) => each.name === target);
  const ofClient = CLIENT_ACTIONS.find((action) => action.id === id);
  if (client !== undefined && ofClient !== undefined) return () => ofClient.act(client, playground);
  const member = playground.server.members.find((each) => each.name === target);
  const ofMember = MEMBER_ACTIONS.find((action) => action.id === id);
  if (member !== undefined && ofMember !== undefined) return () => ofMember.act(member, playground);
  return undefined;
}

/** Whether the process runs code at this moment. */
function runs({ isKilled, isStalled }: PlayClient): boolean {
  return !isKilled && !isStalled;
}
