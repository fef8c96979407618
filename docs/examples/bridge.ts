import { connect } from 'node:net';
import { pipeline } from 'node:stream';
import { createWebSocketStream, WebSocketServer } from 'ws';

// A bridge for programs that have WebSockets, but no sockets, such as pages in a browser. Each WebSocket becomes a
// connection to one etcd server. tunnel.ts is the other end. Whoever may open a WebSocket reaches etcd, so the bridge
// refuses pages of other origins. Where this is not enough, check who the user is, or let etcd authenticate its users.
// It listens on this machine only: put a web server with TLS in front of it.

const { PORT = '2380', ETCD = 'http://127.0.0.1:2379', ORIGIN } = process.env;
const { hostname, port } = new URL(ETCD);
const server = new WebSocketServer({
  host: '127.0.0.1',
  port: Number(PORT),
  perMessageDeflate: false,
  verifyClient: ({ origin }) => origin === ORIGIN,
});
server.on('listening', () => console.log(`a bridge at port ${PORT} to ${ETCD}`));
server.on('connection', (webSocket) => {
  const socket = connect(Number(port), hostname).setNoDelay();
  const stream = createWebSocketStream(webSocket);
  pipeline(stream, socket, stream, (error) => {
    if (error) console.error(`a connection has ended: ${error.message}`);
    webSocket.terminate();
  });
});
