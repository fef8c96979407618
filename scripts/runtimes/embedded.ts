// `connect` comes first, because it loads the polyfills, which the client needs when it is loaded.
import { connect } from '../../docs/examples/embedded/connect.js';
import { http2 } from '../../src/index.js';
import { type Conformance, conformance } from './conformance.js';

// The entry point for QuickJS in the host program of scripts/embedded. `conform JSON` runs the conformance checks with
// JSON as their settings, and prints the results.

const [, settings = ''] = host.arguments;
conformance(JSON.parse(settings) as Conformance, http2({ connect })).then(
  (results) => host.print(JSON.stringify(results)),
  (error: Error) => {
    host.print(`${error}\n${error.stack}`);
    host.exit(1);
  },
);
