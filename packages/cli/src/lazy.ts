// What the common commands load only if they need it. One file loads all of it, because with several such files, esbuild
// would divide the code that they share with the common commands into many files, each of which takes time to load.

export { EtcdctlMode } from './etcdctl/mode.js';
export { warnOfRange } from './etcdctl/questions.js';
export { watchAsEtcdctl } from './etcdctl/watch.js';
export { readTxn } from './txn-text.js';
export { watchLines } from './watch-lines.js';
