import type { StartedTestContainer } from 'testcontainers';
import type { Place } from '../src/testing/etcd/find.js';
import { releaseFor } from '../src/testing/etcd/versions.js';

// Starts etcd in containers, for machines that have Docker but no etcd. This file is not part of the package, because
// it needs the package `testcontainers`.

export interface EtcdImage {
  readonly kind: 'docker';
  readonly image: string;
  readonly version: string;
}

const CLIENT_PORT = 2379;

/** Docker, as a place where `findEtcd` looks. Its `look` rejects if no container engine responds. */
export const DOCKER: Place<EtcdImage> = {
  name: 'Docker',
  look: async (wanted) => {
    const version = releaseFor(wanted);
    if (version === undefined) throw new Error(`no release of ${wanted.minor} is known`);
    const { getContainerRuntimeClient } = await import('testcontainers');
    await getContainerRuntimeClient();
    return { kind: 'docker', image: `gcr.io/etcd-development/etcd:v${version}`, version };
  },
};

export interface EtcdContainer {
  readonly name: string;
  readonly endpoint: string;
  readonly stop: () => Promise<void>;
}

/** Starts the members of one cluster on a new network. */
export async function startContainers(
  { image }: EtcdImage,
  count: number,
  extraArgs: readonly string[],
): Promise<EtcdContainer[]> {
  const { GenericContainer, Network, Wait } = await import('testcontainers');
  const network = await new Network().start();
  const names = Array.from({ length: count }, (_, index) => `m${index}`);
  const cluster = names.map((name) => `${name}=http://${name}:2380`).join(',');
  const containers = await Promise.all(
    names.map((name) =>
      new GenericContainer(image)
        .withNetwork(network)
        .withNetworkAliases(name)
        .withExposedPorts(CLIENT_PORT)
        .withCommand([
          'etcd',
          `--name=${name}`,
          `--listen-client-urls=http://0.0.0.0:${CLIENT_PORT}`,
          `--advertise-client-urls=http://${name}:${CLIENT_PORT}`,
          '--listen-peer-urls=http://0.0.0.0:2380',
          `--initial-advertise-peer-urls=http://${name}:2380`,
          `--initial-cluster=${cluster}`,
          ...extraArgs,
        ])
        .withWaitStrategy(Wait.forHttp('/health', CLIENT_PORT))
        .start(),
    ),
  );
  const stopLast = async (container: StartedTestContainer): Promise<void> => {
    await container.stop();
    containers.splice(containers.indexOf(container), 1);
    if (containers.length === 0) await network.stop();
  };
  return containers.map((container, index) => ({
    name: names[index] as string,
    endpoint: `http://${container.getHost()}:${container.getMappedPort(CLIENT_PORT)}`,
    stop: () => stopLast(container),
  }));
}
