import { EtcdCluster } from '../../src/testing/index.js';

// Starts a cluster with the etcd that the argument names, prints the IDs of its processes, and waits until it is killed.

const cluster = await EtcdCluster.start({ etcd: process.argv[2], members: 2 });
process.stdout.write(`${cluster.members.map(({ pid }) => pid).join()}\n`);
