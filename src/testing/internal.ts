export { ManualClock } from './memory/clock.js';
export { MemoryEtcd } from './memory/memory-etcd.js';
export type { MemoryVersion } from './memory/settings.js';
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
