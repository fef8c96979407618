import { connect } from 'node:net';
import { createWebSocketStream, WebSocketServer } from 'ws';

// A bridge for programs that have WebSockets, but no sockets, such as pages in a browser. Each WebSocket becomes a
// connection to one etcd server without TLS. tunnel.ts is the other end. The bridge accepts only pages of the origin
// in ORIGIN, or without ORIGIN, only programs that send no origin. It listens on this machine only: put a web server
// with TLS in front of it.

const { PORT = '8080', ORIGIN, ETCD_HOST = '127.0.0.1', ETCD_PORT = '2379' } = process.env;
const server = new WebSocketServer({
  host: '127.0.0.1',
  port: Number(PORT),
  perMessageDeflate: false,
  verifyClient: ({ origin }, done) => done(origin === ORIGIN, 403),
});
server.on('listening', () => console.log(`a bridge from ws://127.0.0.1:${PORT} to ${ETCD_HOST}:${ETCD_PORT}`));
server.on('connection', (webSocket) => {
  const socket = connect(Number(ETCD_PORT), ETCD_HOST).setNoDelay();
  socket.on('error', ({ message }) => webSocket.close(1011, message.slice(0, 100)));
  webSocket.on('close', () => socket.destroy());
  const stream = createWebSocketStream(webSocket).on('error', () => {});
  stream.pipe(socket).pipe(stream);
});
