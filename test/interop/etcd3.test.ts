import { type Campaign, Etcd3 } from 'etcd3';
import { expect, inject, onTestFinished, test } from 'vitest';
import { prefix } from '../../src/index.js';
import { Election, observe, Session } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';

// npm's etcd3 stores the candidates of `client.election(name)` under "election/NAME/", each with its lease ID in
// decimal as the last part of its key. Go and etcdwire use the lease ID in hexadecimal. All of them order the
// candidates by their create revisions, so `new Election(session, 'election/NAME')` takes part in the same election.

function etcd3(): Etcd3 {
  const client = new Etcd3({ hosts: inject('endpoints')[0] as string });
  onTestFinished(() => client.close());
  return client;
}

interface Candidate {
  readonly campaign: Campaign;
  readonly elected: Promise<unknown>;
}

/** Campaigns with etcd3. Resolves when the candidate has its key. */
async function candidate(client: Etcd3, name: string, value: string): Promise<Candidate> {
  const campaign = client.election(name, 10).campaign(value);
  // `wait` never resolves if the candidate was elected before the call.
  const elected = campaign.wait();
  const key = await campaign.getCampaignKey();
  await expect.poll(() => client.get(key).exists()).toBe(true);
  return { campaign, elected };
}

test('candidates of etcd3 and of etcdwire wait for each other in the order of their campaigns', async () => {
  const [etcd, theirs, name] = [openClient(), etcd3(), unique('election')];
  const election = new Election(await Session.open(etcd), `election/${name}`);
  const first = await candidate(theirs, name, 'etcd3-1');
  await first.elected;
  const second = election.campaign('etcdwire-2');
  await expect.poll(async () => (await etcd.range(prefix(`election/${name}/`))).count).toBe(2);
  const third = await candidate(theirs, name, 'etcd3-3');
  let isThirdElected = false;
  const thirdElected = third.elected.then(() => {
    isThirdElected = true;
  });
  expect((await election.leader())?.text()).toBe('etcd3-1');
  await first.campaign.resign();
  const leadership = await second;
  expect(isThirdElected).toBe(false);
  expect(await theirs.election(name).leader()).toBe('etcdwire-2');
  await leadership.resign();
  await thirdElected;
  expect((await election.leader())?.text()).toBe('etcd3-3');
  await third.campaign.resign();
});

test('an observer of each package sees the leaders and the proclamations of the other package', async () => {
  const [etcd, theirs, name] = [openClient(), etcd3(), unique('election')];
  const election = new Election(await Session.open(etcd), `election/${name}`);
  const leadership = await election.campaign('etcdwire-1');
  const observer = await theirs.election(name).observe();
  onTestFinished(() => observer.cancel());
  // The observer of etcd3 emits its first event before it has stored the leader.
  await expect.poll(() => observer.leader()).toBe('etcdwire-1');
  const changes: (string | undefined)[] = [];
  observer.on('change', (leader) => changes.push(leader));
  const seen: string[] = [];
  const stop = new AbortController();
  const observing = (async () => {
    for await (const kv of observe(etcd, `election/${name}`, { signal: stop.signal })) seen.push(kv.text());
  })();
  await expect.poll(() => seen).toEqual(['etcdwire-1']);
  await leadership.proclaim('etcdwire-1b');
  await expect.poll(() => observer.leader()).toBe('etcdwire-1b');
  const { campaign, elected } = await candidate(theirs, name, 'etcd3-2');
  await leadership.resign();
  await elected;
  await campaign.proclaim('etcd3-2b');
  await expect.poll(() => seen).toEqual(['etcdwire-1', 'etcdwire-1b', 'etcd3-2', 'etcd3-2b']);
  await expect.poll(() => changes.at(-1)).toBe('etcd3-2b');
  await campaign.resign();
  stop.abort();
  await expect(observing).rejects.toMatchObject({ reason: 'Canceled' });
});

test('a candidate of each package leads when the lease of the leader of the other package ends', async () => {
  const [etcd, theirs, name] = [openClient(), etcd3(), unique('election')];
  const session = await Session.open(etcd);
  const leadership = await new Election(session, `election/${name}`).campaign('etcdwire');
  const { campaign, elected } = await candidate(theirs, name, 'etcd3');
  campaign.on('error', () => {});
  await etcd.lease.revoke(session.leaseId);
  await elected;
  await expect.poll(() => leadership.valid()).toBe(false);
  const waiting = new Election(await Session.open(etcd), `election/${name}`).campaign('etcdwire again');
  await expect.poll(async () => (await etcd.range(prefix(`election/${name}/`))).count).toBe(2);
  const key = await campaign.getCampaignKey();
  await etcd.lease.revoke(BigInt(key.slice(key.lastIndexOf('/') + 1)));
  expect((await waiting).valid()).toBe(true);
  await (await waiting).resign();
});
