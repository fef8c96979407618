// `connect` comes first, because it loads the polyfills, which the client needs when it is loaded.
import { connect } from '../../docs/examples/embedded/connect.js';
import { http2 } from '../../src/index.js';
import { runHolder } from './memory.js';

// A small program with a lock, for QuickJS in the host program of scripts/embedded. See `runHolder`.

const memoryOf = () => ({ heap: host.heapBytes(), resident: host.residentBytes() });
runHolder(host.arguments, memoryOf, host.print, http2({ connect })).catch((error: Error) => {
  host.print(`${error}\n${error.stack}`);
  host.exit(1);
});
