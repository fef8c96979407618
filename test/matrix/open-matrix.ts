import { startEtcd } from '../../scripts/etcd.js';
import { Client } from '../../src/index.js';
import type { EtcdMinor } from '../../src/testing/index.js';
import type { Context } from './exercise.js';

export interface Matrix {
  readonly context: Context;
  /** Closes the clients and stops the cluster. */
  readonly close: () => Promise<void>;
}

/** Starts a cluster of three members of this version. Without a version, uses the servers of ETCD_ENDPOINTS. */
export async function openMatrix(version: EtcdMinor | undefined): Promise<Matrix> {
  const started = await startEtcd({ members: 3, version });
  const { endpoints } = started;
  const clients: Client[] = [];
  const open: Context['open'] = (options) => {
    const client = new Client({ endpoints, auth: { allowPlaintext: true }, ...options });
    clients.push(client);
    return client;
  };
  const close = async (): Promise<void> => {
    await Promise.all(clients.map((client) => client.close()));
    await started.close();
  };
  const [first] = endpoints as [string];
  const etcd = open({ endpoints: [first] });
  try {
    const { version: running } = await etcd.maintenance.status(first);
    return { context: { etcd, endpoints, version: running, cluster: started.cluster, open }, close };
  } catch (error) {
    await close();
    throw error;
  }
}
