// Stands for the package, which is not installed in its own repository. In a project of your own, import the same names
// from 'etcdwire' and 'etcdwire/locks'.

export { Client, EtcdError, op } from '../../../src/index.js';
export { type Held, inspectLock, Mutex, Session, withLock } from '../../../src/locks.js';
