/** What a load needs to know of a cluster: plain data, for processes that did not start it. */
export interface Target {
  readonly etcdctl: string;
  readonly version: string;
  /** Of the members themselves. */
  readonly endpoints: readonly string[];
  /** Of the proxies in front of them, in the same order. */
  readonly proxied: readonly string[];
}

/** The endpoints of the proxies, beginning with that of the member with this index. */
export function proxiedFrom({ proxied }: Target, index: number): string[] {
  const first = index % proxied.length;
  return [...proxied.slice(first), ...proxied.slice(0, first)];
}
