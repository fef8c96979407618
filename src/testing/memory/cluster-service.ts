import type { ResponseHeader } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Member } from './member.js';
import { type Router, serverError } from './service.js';

/** Registers the service Cluster. Members that a client adds never start: see `Membership`. */
export function registerCluster(router: Router, member: Member): void {
  const { auth, membership } = member;
  // The headers of this service have no revision: see `header` in etcd's `v3rpc/member.go`.
  const header = (): ResponseHeader => member.header(0n);
  const { cluster } = methods;

  router.unary(cluster.memberList, (request, call) => {
    auth.authorize(cluster.memberList.path, request, call);
    return { header: header(), members: membership.list() };
  });
  router.unary(cluster.memberAdd, (request, call) => {
    const peerUrls = checkPeerUrls(request.peerUrls);
    auth.authorize(cluster.memberAdd.path, request, call);
    const added = membership.add(peerUrls, request.isLearner);
    member.raftIndex += 1n;
    return { header: header(), member: added, members: membership.list() };
  });
  router.unary(cluster.memberRemove, (request, call) => {
    auth.authorize(cluster.memberRemove.path, request, call);
    membership.remove(request.id);
    member.raftIndex += 1n;
    return { header: header(), members: membership.list() };
  });
  router.unary(cluster.memberUpdate, (request, call) => {
    auth.authorize(cluster.memberUpdate.path, request, call);
    membership.update(request.id, request.peerUrls);
    member.raftIndex += 1n;
    return { header: header(), members: membership.list() };
  });
  router.unary(cluster.memberPromote, (request, call) => {
    auth.authorize(cluster.memberPromote.path, request, call);
    return membership.promote(request.id);
  });
}

/** A URL with a host, a port and no path: `NewURLs` in etcd's `client/pkg/types/urls.go`. */
const HTTP_URL = /^https?:\/\/(?:[^\s/?#@]*@)?(?:\[[^\s\]]*\]|[^\s/?#@:[\]<>"]*):[0-9]*(?:[?#].*)?$/i;
/** A Unix socket. Everything after the scheme is its path. */
const UNIX_URL = /^unixs?:/i;

/** Returns the URLs as etcd stores them, in order. @throws StatusError with reason `MemberBadURLs` */
function checkPeerUrls(urls: readonly string[]): string[] {
  if (urls.length === 0) throw serverError('MemberBadURLs');
  return urls.map((given) => checkPeerUrl(given.trim())).sort();
}

/** Returns the URL as Go's `url.URL` prints it. */
function checkPeerUrl(url: string): string {
  if (!HTTP_URL.test(url) && !UNIX_URL.test(url)) throw serverError('MemberBadURLs');
  return url
    .replace(/^[a-z]+/i, (scheme) => scheme.toLowerCase())
    .replace(/[^ -~]+/g, encodeURIComponent)
    .replace(/#$/, '');
}
