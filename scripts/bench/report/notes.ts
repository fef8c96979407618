import { COLD_START_GROUP } from '../workloads/cold-start.js';
import { HAND_OFFS_GROUP } from '../workloads/hand-offs.js';
import { HOOKS_GROUP } from '../workloads/hooks.js';
import { LEASES_AND_LOCKS_GROUP } from '../workloads/leases-and-locks.js';
import { LIVE_EVENTS_GROUP } from '../workloads/live-events.js';
import { MANY_KEYS_GROUP } from '../workloads/many-keys.js';
import { MEMORY_GROUP } from '../workloads/memory.js';

/** What has to be known to read the table of a group. */
export const NOTES: Readonly<Record<string, string>> = {
  [COLD_START_GROUP]:
    'From the start of a process that imports the client and makes one get to its end, right after the answer; ' +
    'a round is one start of each.',
  [LEASES_AND_LOCKS_GROUP]:
    'A keepalive is one renewal by `keepAliveOnce` (etcd3: `keepaliveOnce`), on a stream of its own with every client. ' +
    'A cycle takes a lock and frees it: etcdwire under a session that is open, etcd3 with a lease for each lock, which ' +
    'is the only way it has. Bare grpc-js has no locks.',
  [HAND_OFFS_GROUP]:
    'All contenders in one process, each with a client and a session of its own. Percentiles are of the wait for the ' +
    'lock. etcd3 takes no part: its lock does not wait.',
  [HOOKS_GROUP]:
    'etcdwire alone, in three times as many rounds. Without hooks: its sources put together without what lets calls be looked at. Off: the client as it ' +
    'is. An interceptor hands each call on; a subscriber listens to `etcdwire:call:start` and `etcdwire:call:end`, and ' +
    'does nothing.',
  [LIVE_EVENTS_GROUP]:
    'One event a put of 100 bytes, 64 puts in flight by etcdwire in another process; CPU is that of the watching ' +
    'process, percentiles are from before the put to after its event. The rate is that of the puts where the client can ' +
    'follow.',
  [MANY_KEYS_GROUP]:
    'Operations are keys and events of 100 bytes; percentiles are of the whole. etcd3 and bare grpc-js have the keys in ' +
    'one answer, and both need the limit of 4 MB of grpc-js lifted for it. The server begins to ' +
    'send what is past up to 100 ms after a watch is created, and sends 1,000 revisions of a watch each 100 ms.',
  [MEMORY_GROUP]:
    'After garbage collection; "heap" includes buffers outside of the JavaScript heap. Each client in a new process, ' +
    'whose growth is counted from 1,000 gets on. What is given for a watcher is the growth; the rest is of the whole ' +
    'process.',
};
