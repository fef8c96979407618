import type { Contender } from './contender.js';
import type { HookedName } from './hooks.js';

/** What each client is called, in tables too. */
export const CONTENDERS = ['etcdwire', 'etcdwire over grpc-js', 'etcd3', 'bare grpc-js'] as const;
export type ContenderName = (typeof CONTENDERS)[number] | HookedName;

/** Loads one client, and none of the others' code. */
export async function openContender(name: ContenderName, endpoint: string): Promise<Contender> {
  switch (name) {
    case 'etcdwire':
      return (await import('./etcdwire.js')).openEtcdwire({ endpoints: [endpoint] });
    case 'etcdwire over grpc-js': {
      const { openEtcdwire } = await import('./etcdwire.js');
      const { grpcJs } = await import('../../../src/grpc-js.js');
      return openEtcdwire({ endpoints: [endpoint], transport: grpcJs });
    }
    case 'etcd3':
      return (await import('./etcd3.js')).openEtcd3(endpoint);
    case 'bare grpc-js':
      return (await import('./bare-grpc-js.js')).openBareGrpcJs(endpoint);
    default:
      return (await import('./hooks.js')).openHooked(name, endpoint);
  }
}
