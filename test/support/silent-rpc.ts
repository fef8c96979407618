import { ClientEvents } from '../../src/base/log.js';
import { Rpc } from '../../src/rpc/rpc.js';

/** An RPC layer that sends nothing and receives nothing. */
export function silentRpc(closed: AbortSignal): Rpc {
  const stream = { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
  const transport = { unary: () => new Promise<never>(() => {}), stream: () => stream, close: async () => {} };
  return new Rpc(transport, { timeoutMs: 1_000, renewsTokens: false, events: new ClientEvents(), closed });
}
