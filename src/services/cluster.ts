import { CALL_OPTIONS, type CallOptions, type Rpc } from '../channel/rpc.js';
import { invalidInput } from '../errors/etcd-error.js';
import type { Member } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { showUrl } from '../host/endpoint.js';
import { type WithHeader, withHeader } from '../kv/results.js';
import { checkOptions, checkUint64 } from '../runtime/arguments.js';

export type { Member };

const MEMBER_LIST_OPTIONS = { linearizable: true, ...CALL_OPTIONS } as const;
const MEMBER_ADD_OPTIONS = { learner: true, ...CALL_OPTIONS } as const;

/** All members as they are after the call. */
export interface Members {
  readonly members: readonly Member[];
}

/** The members of the cluster. */
export class Cluster {
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /**
   * The members. `linearizable` (default true; etcd 3.5 and later) asks the cluster; without it the member asked tells
   * what it knows, which needs no quorum and may be old.
   */
  async memberList(
    options: { readonly linearizable?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<Members>> {
    checkOptions(options, MEMBER_LIST_OPTIONS, 'cluster.memberList');
    const { header, members } = await this.#rpc.call(
      methods.cluster.memberList,
      { linearizable: options.linearizable ?? true },
      options,
    );
    return withHeader(header, { members });
  }

  /** Adds a member before it is started. As a `learner` (etcd 3.4 and later) it has no vote until it is promoted. */
  async memberAdd(
    peerUrls: readonly string[],
    options: { readonly learner?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<Members & { readonly member: Member }>> {
    checkOptions(options, MEMBER_ADD_OPTIONS, 'cluster.memberAdd');
    const request = { peerUrls: checkUrls(peerUrls), isLearner: options.learner };
    const { header, member, members } = await this.#rpc.call(methods.cluster.memberAdd, request, options);
    return withHeader(header, { member: member as Member, members });
  }

  /** Gives a learner its vote. @throws EtcdError, reason `LearnerNotReady` while it has not caught up. */
  async memberPromote(id: bigint, options?: CallOptions): Promise<WithHeader<Members>> {
    const request = { id: checkUint64(id, 'id') };
    const { header, members } = await this.#rpc.checkedCall(methods.cluster.memberPromote, request, options);
    return withHeader(header, { members });
  }

  /** Changes the addresses at which the other members reach one. */
  async memberUpdate(id: bigint, peerUrls: readonly string[], options?: CallOptions): Promise<WithHeader<Members>> {
    const request = { id: checkUint64(id, 'id'), peerUrls: checkUrls(peerUrls) };
    const { header, members } = await this.#rpc.checkedCall(methods.cluster.memberUpdate, request, options);
    return withHeader(header, { members });
  }

  /** Removes a member, by its id. @throws EtcdError, reason `MemberNotFound`. */
  async memberRemove(id: bigint, options?: CallOptions): Promise<WithHeader<Members>> {
    const { header, members } = await this.#rpc.checkedCall(
      methods.cluster.memberRemove,
      { id: checkUint64(id, 'id') },
      options,
    );
    return withHeader(header, { members });
  }
}

function checkUrls(urls: readonly string[]): readonly string[] {
  const allowed = 'a list of at least one URL, http://host:port or https://host:port';
  if (!Array.isArray(urls) || urls.length === 0) throw invalidInput('peerUrls', 'no URL', allowed);
  for (const [index, url] of urls.entries()) {
    if (typeof url !== 'string' || !/^https?:\/\/[^/]+:\d+$/.test(url))
      throw invalidInput(`peerUrls[${index}]`, showUrl(url), allowed);
  }
  return urls;
}
