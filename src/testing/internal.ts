export { InProcessConnection } from './http2-server/in-process.js';
export { Http2Server } from './http2-server/server.js';
export type { Commit } from './memory/change.js';
export { type Clock, ManualClock } from './memory/clock.js';
export { KeyRange, keyId } from './memory/key-range.js';
export { MemoryEtcd } from './memory/memory-etcd.js';
export type { MemoryMember, RaftEntry, RaftView } from './memory/memory-member.js';
export type { Route, Service } from './memory/service.js';
export type { MemoryVersion } from './memory/settings.js';
export type { Message as RaftMessage } from './raft/messages.js';
export { OF_CLUSTER } from './replay/compare.js';
export type {
  CallStep,
  EventStep,
  RecordedState,
  RecordedStep,
  Recording,
  ReplayDifference,
  StreamStep,
} from './replay/recording.js';
export { type ReplayOptions, replay } from './replay/replay.js';
export { WAITING } from './replay/stream.js';
