import { Etcd3 } from 'etcd3';

const client = new Etcd3({ hosts: process.env.ETCD_HOSTS ?? 'http://127.0.0.1:2379' });

/** The commands of an administrator. */
export const commands = {
  pause: () => client.put('scheduler/config').value(JSON.stringify({ paused: true, maxJobs: 10 })),
  resume: async () => {
    await client.delete().key('scheduler/config');
  },
  async transfer(from: string, to: string, amount: number) {
    await client.stm().transact(async (tx) => {
      const [a, b] = await Promise.all([tx.get(from).number(), tx.get(to).number()]);
      await tx.put(from).value((a ?? 0) - amount);
      await tx.put(to).value((b ?? 0) + amount);
    });
  },
  history: async (job: string) => {
    const all = await client.getAll().prefix(`scheduler/history/${job}/`).sort('Create', 'Descend').limit(10).strings();
    return Object.entries(all).map(([key, result]) => ({ at: Number(key.split('/').at(-1)), result }));
  },
  clear: () => client.delete().prefix('scheduler/history/').exec(),
};

export function close(): void {
  client.close();
}
