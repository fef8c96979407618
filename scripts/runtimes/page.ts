import { conformance } from './conformance.js';

// On a page: who drives the browser calls it.

Object.assign(globalThis, { conformance });
