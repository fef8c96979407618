import { conformance } from './conformance.js';

// The entry point of a browser page. The script that controls the browser calls the global function `conformance`.

Object.assign(globalThis, { conformance });
