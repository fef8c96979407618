import { connect, type Socket } from 'node:net';

/** The first bytes of each HTTP/2 connection. An HTTP/1 server refuses them, because no method is called PRI. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

/** A SETTINGS frame. Its only setting is HEADER_TABLE_SIZE (1) = 0; chapter 3 explains why. */
const SETTINGS = Buffer.from('000006 04 00 00000000  0001 00000000'.replaceAll(' ', ''), 'hex');

/** Connects to a server at an address such as `127.0.0.1:2379`, and sends what each HTTP/2 client sends first. */
export function open(address: string): Socket {
  const url = new URL(`http://${address}`);
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  socket.write(Buffer.concat([PREFACE, SETTINGS]));
  return socket;
}
