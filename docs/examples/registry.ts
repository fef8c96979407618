import { createServer } from 'node:http';
import { Client } from 'etcdwire';
import { SelfHealingSession } from 'etcdwire/locks';
import { fromEnv } from 'etcdwire/node';
import { Service } from 'etcdwire/recipes';

await using etcd = new Client(fromEnv());
const [service, address] = [new Service(etcd, 'services/web'), `127.0.0.1:${process.env.PORT}`];
await using view = await service.view();
const server = createServer((_, response) => response.end(view.pick()?.address)).listen(process.env.PORT);
await service.register(await SelfHealingSession.open(etcd), address, { address });
await new Promise((resolve) => process.once('SIGTERM', resolve));
server.close();
