import { conformance } from './conformance.js';

// The entry point for a browser page. The script that controls the browser calls this function.

Object.assign(globalThis, { conformance });
