import { connect } from 'node:net';
import { Duplex } from 'node:stream';
import { Client, type DuplexStream, http2 } from '../../src/index.js';

// Reads one key over a stream that the program opens, and prints `answered`. Does not close the client, so that a test
// can check that the process exits anyway. Neither kind of stream keeps the process alive after the call.
// Usage: tunnel-program.ts ENDPOINT socket|plain

const [endpoint = '', kind] = process.argv.slice(2);
const { protocol, hostname, port } = new URL(endpoint);

/** Returns a stream without the methods `ref` and `unref`, over a socket that does not keep the process alive. */
function plain(): DuplexStream {
  const socket = connect(Number(port), hostname).unref();
  return Duplex.from({ readable: socket, writable: socket });
}

const open = (): DuplexStream => (kind === 'plain' ? plain() : connect(Number(port), hostname));
const client = new Client({ endpoints: [`${protocol}//localhost`], transport: http2({ connect: open }) });
await client.get('a');
process.stdout.write('answered\n');
