// A Worker for Cloudflare that reaches an etcd in a private network through Workers VPC, a binding with a function
// `fetch`.
import { Client } from 'etcdwire';
import { gateway } from 'etcdwire/gateway';

export default {
  async fetch(_, env) {
    const transport = gateway({ fetch: (url, init) => env.VPC.fetch(url, init) });
    await using etcd = new Client({ endpoints: [env.ETCD], transport, timeoutMs: 5_000 });
    await etcd.put('config/color', 'red');
    return new Response((await etcd.get('config/color'))?.text());
  },
};
