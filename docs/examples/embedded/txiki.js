// An adapter for txiki.js, which has all globals that the client uses. The project has never run it, because it could not
// obtain a release of txiki.js: the adapter follows https://github.com/saghul/txiki.js/tree/master/types, and may be wrong.

/** The option `connect` of `http2`. */
export const connect = async ({ address }) => {
  const socket = await tjs.connect('tcp', address.host, address.port, { noDelay: true });
  return socket.opened;
};
