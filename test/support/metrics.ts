/** Watch events that the members say they have sent so far. */
export async function eventsSent(endpoints: readonly string[]): Promise<number> {
  const counts = await Promise.all(
    endpoints.map(async (endpoint) => {
      const metrics = await (await fetch(`${endpoint}/metrics`)).text();
      const [, count] = /^etcd_debugging_mvcc_events_total (\S+)$/m.exec(metrics) ?? [];
      if (count === undefined) throw new Error('the server does not count its watch events');
      return Number(count);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}
