import { RELEASES } from '../etcd/versions.js';
import type { Page } from '../http1-server/server.js';
import type { Member } from './member.js';

type Labels = Readonly<Record<string, string>>;

/** A metric: its type, its help text, and its values with their labels. */
type Metric = readonly [
  name: string,
  type: 'counter' | 'gauge',
  help: string,
  ...values: (readonly [number, Labels?])[],
];

/**
 * Returns the metrics of a member in the text format of Prometheus. The page contains only those of etcd's metrics that
 * the member knows. It has no metrics of durations, disks, peers or the Go runtime.
 */
export function metricsPage(member: Member, paths: readonly string[]): Page {
  return {
    status: 200,
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
    body: metricsOf(member, paths).map(show).join(''),
  };
}

function metricsOf(member: Member, paths: readonly string[]): Metric[] {
  const { counters, downgrade, memberId, raftIndex, settings, store } = member;
  const calls = paths.map((path): readonly [number, Labels] => {
    const [, service = '', method = ''] = path.split('/');
    return [counters.calls.get(path) ?? 0, { grpc_method: method, grpc_service: service }];
  });
  return [
    [
      'etcd_cluster_version',
      'gauge',
      'The version of the cluster.',
      [1, { cluster_version: downgrade.clusterVersion }],
    ],
    ['etcd_server_version', 'gauge', 'The version of the server.', [1, { server_version: RELEASES[settings.version] }]],
    ['etcd_server_id', 'gauge', 'The ID of the member in hexadecimal.', [1, { server_id: memberId.toString(16) }]],
    ['etcd_server_has_leader', 'gauge', 'Whether a leader exists.', [1]],
    ['etcd_server_is_leader', 'gauge', 'Whether this member is the leader.', [1]],
    ['etcd_server_is_learner', 'gauge', 'Whether this member is a learner.', [0]],
    ['etcd_server_proposals_applied_total', 'gauge', 'The number of proposals applied.', [Number(raftIndex)]],
    ['etcd_server_proposals_committed_total', 'gauge', 'The number of proposals committed.', [Number(raftIndex)]],
    ['etcd_server_quota_backend_bytes', 'gauge', 'The quota of the database in bytes.', [settings.quotaBytes]],
    ['etcd_server_health_success', 'counter', 'The number of successful health checks.', [counters.healthSuccesses]],
    ['etcd_server_health_failures', 'counter', 'The number of failed health checks.', [counters.healthFailures]],
    ['etcd_mvcc_db_total_size_in_bytes', 'gauge', 'The size of the database in bytes.', [store.bytes]],
    ['etcd_mvcc_db_total_size_in_use_in_bytes', 'gauge', 'The used bytes of the database.', [store.bytesInUse]],
    ['etcd_debugging_mvcc_current_revision', 'gauge', 'The revision of the store.', [Number(store.revision)]],
    [
      'etcd_debugging_mvcc_compact_revision',
      'gauge',
      'The revision of the last compaction.',
      [Number(store.compacted)],
    ],
    ['etcd_debugging_mvcc_watch_stream_total', 'gauge', 'The number of watch streams.', [counters.watchStreams]],
    ['etcd_debugging_mvcc_watcher_total', 'gauge', 'The number of watches.', [counters.watchers]],
    ['etcd_debugging_mvcc_events_total', 'counter', 'The number of events sent to watches.', [counters.events]],
    ['grpc_server_started_total', 'counter', 'The number of calls that have started.', ...calls],
  ];
}

function show([name, type, help, ...values]: Metric): string {
  const lines = values.map(([value, labels = {}]) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`);
    return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`;
  });
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n');
}
