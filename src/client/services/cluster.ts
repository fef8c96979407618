import { checkBoolean, checkList, checkOptions, checkUint64, invalidInput } from '../../base/index.js';
import type { Member } from '../../gen/etcdserverpb/rpc.js';
import * as clusterMethods from '../../gen/methods/cluster.js';
import { showUrl } from '../../host/index.js';
import {
  CALL_OPTIONS,
  type CallOptions,
  type Rpc,
  type WithHeader,
  withHeader,
  withHeaderOf,
} from '../../rpc/index.js';

export type { Member };

const MEMBER_LIST_OPTIONS = { linearizable: checkBoolean, ...CALL_OPTIONS } as const;
const MEMBER_ADD_OPTIONS = { learner: checkBoolean, ...CALL_OPTIONS } as const;

/** All members of the cluster, as they are after the call. */
export interface Members {
  readonly members: readonly Member[];
}

/**
 * Lists and changes the members of the cluster. A method that fails rejects with an `EtcdError`. The reason is
 * `InvalidInput` for an invalid argument. Otherwise, the reason says why the call failed.
 *
 * @example
 * const { members } = await etcd.cluster.memberList();
 * for (const { name, clientUrls } of members) console.log(name, clientUrls);
 */
export class Cluster {
  readonly #rpc: Rpc;

  /** @internal */
  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /**
   * Returns the members. If `linearizable` is true, which is the default, the list is up to date, and the call needs a
   * quorum (etcd 3.5 and later). If `linearizable` is false, one member answers from its own data. The call then needs
   * no quorum, but the list may be stale.
   *
   * @example
   * const { members } = await etcd.cluster.memberList({ linearizable: false });
   */
  async memberList(
    options: { readonly linearizable?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<Members>> {
    checkOptions(options, MEMBER_LIST_OPTIONS, 'cluster.memberList');
    const request = { linearizable: options.linearizable ?? true };
    return withHeaderOf(this.#rpc.call(clusterMethods.memberList, request, options));
  }

  /**
   * Adds a member to the cluster. Call this method before you start the new member. If `learner` is true (etcd 3.4 and
   * later), the member is a learner, which does not vote until it is promoted. Default false: a voting member.
   *
   * @throws EtcdError, for example with reason `PeerURLExist` if a member already has one of the URLs, or
   * `TooManyLearners` if the cluster already has as many learners as etcd allows.
   *
   * @example
   * const { member } = await etcd.cluster.memberAdd(['http://10.0.0.4:2380'], { learner: true });
   */
  async memberAdd(
    peerUrls: readonly string[],
    options: { readonly learner?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<Members & { readonly member: Member }>> {
    checkOptions(options, MEMBER_ADD_OPTIONS, 'cluster.memberAdd');
    const request = { peerUrls: checkUrls(peerUrls), isLearner: options.learner };
    const { header, member, members } = await this.#rpc.call(clusterMethods.memberAdd, request, options);
    return withHeader(header, { member: member as Member, members });
  }

  /**
   * Makes a learner a voting member.
   *
   * @throws EtcdError with reason `LearnerNotReady` if the learner has not caught up with the leader yet, or
   * `MemberNotLearner` if the member is not a learner.
   *
   * @example
   * const { member } = await etcd.cluster.memberAdd(['http://10.0.0.4:2380'], { learner: true });
   * // Start the member, and wait until it has caught up.
   * await etcd.cluster.memberPromote(member.id);
   */
  async memberPromote(id: bigint, options?: CallOptions): Promise<WithHeader<Members>> {
    const request = { id: checkUint64(id, 'id') };
    return withHeaderOf(this.#rpc.checkedCall(clusterMethods.memberPromote, request, options));
  }

  /**
   * Replaces the URLs that the other members use to reach a member.
   *
   * @throws EtcdError with reason `MemberNotFound` if the cluster has no member with this ID.
   *
   * @example
   * const { members } = await etcd.cluster.memberList();
   * const member = members.find(({ name }) => name === 'etcd-1');
   * if (member !== undefined) await etcd.cluster.memberUpdate(member.id, ['http://10.0.0.5:2380']);
   */
  async memberUpdate(id: bigint, peerUrls: readonly string[], options?: CallOptions): Promise<WithHeader<Members>> {
    const request = { id: checkUint64(id, 'id'), peerUrls: checkUrls(peerUrls) };
    return withHeaderOf(this.#rpc.checkedCall(clusterMethods.memberUpdate, request, options));
  }

  /**
   * Removes a member from the cluster.
   *
   * @throws EtcdError with reason `MemberNotFound` if the cluster has no member with this ID.
   *
   * @example
   * const { members } = await etcd.cluster.memberList();
   * const member = members.find(({ name }) => name === 'etcd-1');
   * if (member !== undefined) await etcd.cluster.memberRemove(member.id);
   */
  async memberRemove(id: bigint, options?: CallOptions): Promise<WithHeader<Members>> {
    const request = { id: checkUint64(id, 'id') };
    return withHeaderOf(this.#rpc.checkedCall(clusterMethods.memberRemove, request, options));
  }
}

function checkUrls(urls: readonly string[]): readonly string[] {
  const form = 'http://host:port or https://host:port';
  const allowed = `a list of at least one URL of the form ${form}`;
  const list = checkList(urls, 'peerUrls', allowed);
  if (list.length === 0) throw invalidInput('peerUrls', 'an empty list', allowed);
  for (const [index, url] of list.entries()) {
    if (typeof url !== 'string' || !/^https?:\/\/[^/]+:\d+$/.test(url))
      throw invalidInput(`peerUrls[${index}]`, showUrl(url), form);
  }
  return list;
}
