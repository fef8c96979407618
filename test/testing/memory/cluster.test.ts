import { describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { registerCluster } from '../../../src/testing/memory/cluster-service.js';
import { StatusError, serverError } from '../../../src/testing/memory/service.js';
import { ServiceBench } from '../../support/memory-services.js';

const { memberAdd, memberList, memberPromote, memberRemove, memberUpdate } = methods.cluster;

/** etcd sends this error with status Unknown instead of the status of the error. */
const NOT_ENOUGH_STARTED = new StatusError(
  'Unknown',
  'etcdserver: re-configuration failed due to not enough started members',
);

function openBench(): ServiceBench {
  const bench = new ServiceBench();
  registerCluster(bench.router, bench.member);
  return bench;
}

function add(bench: ServiceBench, peerUrls: readonly string[], isLearner = false): bigint {
  const { member } = bench.call(memberAdd, { peerUrls, isLearner });
  if (member === undefined) throw new Error('The response has no member.');
  return member.id;
}

describe("MemoryEtcd's MemberList", () => {
  test('returns the member, and a header without a revision', () => {
    const bench = openBench();
    const { memberId } = bench.member;
    const self = {
      id: memberId,
      name: 'default',
      peerUrls: ['http://localhost:2380'],
      clientUrls: ['unix:///memory-etcd'],
      isLearner: false,
    };
    const expected = { header: bench.member.header(0n), members: [self] };
    expect(bench.call(memberList, {})).toEqual(expected);
    expect(bench.call(memberList, { linearizable: true })).toEqual(expected);
  });

  test('orders the members by their IDs', () => {
    const bench = openBench();
    add(bench, ['http://a:1'], true);
    add(bench, ['http://b:1']);
    const ids = bench.call(memberList, {}).members.map(({ id }) => id);
    expect(ids).toHaveLength(3);
    expect(ids).toEqual([...ids].sort((a, b) => (a < b ? -1 : 1)));
  });
});

describe("MemoryEtcd's MemberAdd", () => {
  test('returns the new member, which has not started', () => {
    const bench = openBench();
    const response = bench.call(memberAdd, { peerUrls: ['http://b:2', ' HTTP://a:1 '], isLearner: true });
    expect(response.member).toMatchObject({
      name: '',
      peerUrls: ['http://a:1', 'http://b:2'],
      clientUrls: [],
      isLearner: true,
    });
    expect(response.members).toHaveLength(2);
    expect(response.members).toContainEqual(response.member);
  });

  test.for([
    [[]],
    [['']],
    [['localhost:2380']],
    [['http://localhost']],
    [['http://localhost:2380/']],
    [['http://localhost:http']],
    [['http://local host:2380']],
    [['http://::1:2380']],
    [['ftp://localhost:2380']],
    [['http://a:1', 'nonsense']],
  ] as const)('rejects the URLs %j', ([peerUrls]) => {
    expect(() => openBench().call(memberAdd, { peerUrls })).toThrow(serverError('MemberBadURLs'));
  });

  test.for([
    ['http://[::1]:2380', 'http://[::1]:2380'],
    ['https://user:secret@host:', 'https://user:secret@host:'],
    ['http://:2380?a=b', 'http://:2380?a=b'],
    ['http://ä:1#', 'http://%C3%A4:1'],
    ['unix:///run/etcd', 'unix:///run/etcd'],
    ['unixs:name', 'unixs:name'],
  ] as const)('accepts the URL %s', ([url, stored]) => {
    const { member } = openBench().call(memberAdd, { peerUrls: [url] });
    expect(member?.peerUrls).toEqual([stored]);
  });

  test('rejects a URL that another member has', () => {
    const bench = openBench();
    add(bench, ['http://a:1', 'http://b:1'], true);
    for (const url of ['http://b:1', 'http://localhost:2380'])
      expect(() => add(bench, ['http://c:1', url])).toThrow(serverError('PeerURLExist'));
  });

  test('rejects a second learner', () => {
    const bench = openBench();
    const id = add(bench, ['http://a:1'], true);
    expect(() => add(bench, ['http://b:1'], true)).toThrow(serverError('TooManyLearners'));
    bench.call(memberRemove, { id });
    expect(add(bench, ['http://b:1'], true)).not.toBe(id);
  });

  test('rejects every member while a voting member has not started', () => {
    const bench = openBench();
    const id = add(bench, ['http://a:1']);
    expect(() => add(bench, ['http://b:1'])).toThrow(NOT_ENOUGH_STARTED);
    expect(() => add(bench, ['http://b:1'], true)).toThrow(serverError('Unhealthy'));
    bench.call(memberRemove, { id });
    expect(add(bench, ['http://b:1'])).not.toBe(id);
  });
});

describe("MemoryEtcd's MemberRemove", () => {
  test('rejects the removal of the only member that has started', () => {
    const bench = openBench();
    add(bench, ['http://a:1'], true);
    expect(() => bench.call(memberRemove, { id: bench.member.memberId })).toThrow(NOT_ENOUGH_STARTED);
  });

  test('rejects an unknown member', () => {
    const bench = openBench();
    const id = add(bench, ['http://a:1']);
    expect(bench.call(memberRemove, { id }).members).toHaveLength(1);
    expect(() => bench.call(memberRemove, { id })).toThrow(serverError('MemberNotFound'));
  });
});

describe("MemoryEtcd's MemberUpdate", () => {
  test('replaces the peer URLs, even by texts that are not URLs', () => {
    const bench = openBench();
    const { memberId: id } = bench.member;
    const { members } = bench.call(memberUpdate, { id, peerUrls: ['z', 'a'] });
    expect(members).toMatchObject([{ id, peerUrls: ['z', 'a'] }]);
  });

  test('rejects an unknown member, and a URL that another member has', () => {
    const bench = openBench();
    const id = add(bench, ['http://a:1'], true);
    expect(() => bench.call(memberUpdate, { id: 7n })).toThrow(serverError('MemberNotFound'));
    const taken = { id, peerUrls: ['http://localhost:2380'] };
    expect(() => bench.call(memberUpdate, taken)).toThrow(serverError('PeerURLExist'));
    expect(bench.call(memberUpdate, { id, peerUrls: ['http://a:1'] }).members).toHaveLength(2);
  });
});

describe("MemoryEtcd's MemberPromote", () => {
  test('rejects a learner, the member itself and an unknown member with different errors', () => {
    const bench = openBench();
    const learner = add(bench, ['http://a:1'], true);
    const reasons = [
      [learner, 'LearnerNotReady'],
      [bench.member.memberId, 'MemberNotLearner'],
      [7n, 'MemberNotFound'],
    ] as const;
    for (const [id, reason] of reasons) expect(() => bench.call(memberPromote, { id })).toThrow(serverError(reason));
  });
});
