/** Resolves with the number of watch events that the members have sent so far, according to their metrics. */
export function eventsSent(endpoints: readonly string[]): Promise<number> {
  return sum(endpoints, 'etcd_debugging_mvcc_events_total');
}

/** Resolves with the number of open watches on the members, according to their metrics. */
export function watchers(endpoints: readonly string[]): Promise<number> {
  return sum(endpoints, 'etcd_debugging_mvcc_watcher_total');
}

/** Resolves with the number of calls of a unary method that the members have received, according to their metrics. */
export function callsReceived(endpoints: readonly string[], method: string): Promise<number> {
  return sum(endpoints, `grpc_server_started_total\\{[^}]*grpc_method="${method}"[^}]*\\}`);
}

async function sum(endpoints: readonly string[], metric: string): Promise<number> {
  const counts = await Promise.all(
    endpoints.map(async (endpoint) => {
      const metrics = await (await fetch(`${endpoint}/metrics`)).text();
      const [, count] = new RegExp(`^${metric} (\\S+)$`, 'm').exec(metrics) ?? [];
      if (count === undefined) throw new Error(`the server has no metric ${metric}`);
      return Number(count);
    }),
  );
  return counts.reduce((total, count) => total + count, 0);
}
