import { Rpc } from '../../src/channel/rpc.js';
import { ClientEvents } from '../../src/runtime/log.js';

/** An RPC layer that sends nothing and receives nothing. */
export function silentRpc(closed: AbortSignal): Rpc {
  const stream = { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
  const transport = { unary: () => new Promise<never>(() => {}), stream: () => stream, close: async () => {} };
  return new Rpc(transport, { timeoutMs: 1_000, renewsTokens: false, events: new ClientEvents(), closed });
}
