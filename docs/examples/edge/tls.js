// A Worker that connects with TLS to a proxy in front of etcd. `env.PROXY` is an `http:` URL, because the client itself
// does no TLS. workerd checks the certificate of the proxy against the authorities that the platform trusts, and its name
// against the host in the URL. If it refuses the certificate, the error only says `proxy request failed, cannot connect to
// the specified address`, and the reason is in the log of workerd. workerd sends no client certificate, so require a user
// and a password, with `auth.allowPlaintext`: the password is encrypted on its way to the proxy.
import { connect } from 'cloudflare:sockets';
import { Client, http2 } from 'etcdwire';

const transport = http2({
  connect: ({ address: { host, port } }) =>
    connect({ hostname: host, port }, { secureTransport: 'on', allowHalfOpen: false }),
});

export default {
  async fetch(_, env) {
    await using etcd = new Client({ endpoints: [env.PROXY], transport, timeoutMs: 5_000 });
    await etcd.put('config/color', 'red');
    return new Response((await etcd.get('config/color'))?.text());
  },
};
