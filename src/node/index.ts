/**
 * What needs files, and so a host that has some.
 *
 * @module etcdwire/node
 */
export { saveSnapshot } from './save-snapshot.js';
