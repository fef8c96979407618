import { expect } from 'vitest';
import { Authority, type Certificate } from '../../packages/cli/src/proxy/authority.js';
import { prefix } from '../../src/index.js';
import { FaultProxy } from '../../src/testing/index.js';
import { between } from '../load/rounds.js';
import { faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';
import { HERE, SecureEtcd } from '../support/tls/secure-etcd.js';
import { refusalOf } from '../support/tls/tls-peer.js';
import { valueText } from '../support/watch-events.js';

// The server presents a certificate that the client must reject, and later a valid one again (rule S30 in
// docs/semantics.md). Clients connect through a proxy, which drops the connections so that the clients have to connect
// again.

const HOUR_MS = 3_600_000;

faultRow(
  'expired, wrong and rotated server certificates',
  openSecure,
  async ({ etcd, proxy, ca, good, bad }, round) => {
    const { seed, random } = round;
    etcd.show(await good());
    const endpoints = [`https://127.0.0.1:${proxy.port}`];
    const [writer, watcher] = [
      openClient({ endpoints: [etcd.endpoint], tls: { ca } }),
      openClient({ endpoints, tls: { ca } }),
    ];
    await writer.put(`c-${seed}/0`, '0');
    const watch = watcher.watch(prefix(`c-${seed}/`));
    await watch.created();
    const seen: string[] = [];
    const watching = (async () => {
      for await (const event of watch) seen.push(valueText(event));
    })();
    const written: string[] = [];
    const write = async (): Promise<void> => {
      written.push(`${written.length}`);
      await writer.put(`c-${seed}/k`, `${written.length - 1}`);
    };
    const kinds = bad.toSorted(() => random() - 0.5);
    const recoveryMs: number[] = [];
    for (const { issue, problem } of kinds) {
      for (let puts = Math.ceil(between(0, 5, random)); puts > 0; puts -= 1) await write();
      etcd.show(await issue());
      proxy.dropConnections();
      // This put succeeds, because the writer's connection was opened before the server changed its certificate.
      await write();
      const fresh = openClient({ endpoints, tls: { ca } });
      expect(await refusalOf(fresh)).toMatchObject({
        reason: 'ConnectFailed',
        outcome: 'not-sent',
        problem: expect.stringMatching(problem),
      });
      etcd.show(await good());
      const goodAt = performance.now();
      expect((await fresh.get('never'))?.text()).toBeUndefined();
      await expect.poll(() => seen.length).toBe(written.length);
      recoveryMs.push(performance.now() - goodAt);
    }
    expect(seen).toEqual(written);
    await watch.close();
    await watching;
    return { faults: kinds.length, events: seen.length, puts: written.length, recoveryMs };
  },
);

async function openSecure() {
  const [authority, other] = [await Authority.create(), await Authority.create('another')];
  const good = (): Promise<Certificate> => authority.issue(HERE);
  const etcd = await SecureEtcd.start(await good());
  if (etcd === undefined) return undefined;
  const proxy = await FaultProxy.start(etcd.endpoint);
  const bad = [
    {
      issue: () => authority.issue({ ...HERE, fromMs: -2 * HOUR_MS, untilMs: -HOUR_MS }),
      problem: /certificate has expired/,
    },
    { issue: () => authority.issue({ ...HERE, fromMs: HOUR_MS }), problem: /certificate is not yet valid/ },
    { issue: () => authority.issue({ names: ['elsewhere.example'] }), problem: /altnames/ },
    { issue: () => other.issue(HERE), problem: /issuer certificate|first certificate|self.signed/ },
  ];
  const heal = async (): Promise<void> => {
    proxy.heal();
    etcd.show(await good());
  };
  const close = async (): Promise<void> => {
    await proxy.close();
    await etcd.stop();
  };
  return { etcd, proxy, ca: authority.cert, good, bad, heal, [Symbol.asyncDispose]: close };
}
