/** The commands of etcdctl, which can be shortened as long as the name is unambiguous. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  alarm: ['disarm', 'list'],
  auth: ['disable', 'enable', 'status'],
  check: ['datascale', 'perf'],
  compaction: [],
  completion: [],
  defrag: [],
  del: [],
  downgrade: ['cancel', 'enable', 'validate'],
  elect: [],
  endpoint: ['hashkv', 'health', 'status'],
  get: [],
  help: [],
  lease: ['grant', 'keep-alive', 'list', 'revoke', 'timetolive'],
  lock: [],
  'make-mirror': [],
  member: ['add', 'list', 'promote', 'remove', 'update'],
  'move-leader': [],
  put: [],
  role: ['add', 'delete', 'get', 'grant-permission', 'list', 'revoke-permission'],
  snapshot: ['save'],
  txn: [],
  user: ['add', 'delete', 'get', 'grant-role', 'list', 'passwd', 'revoke-role'],
  version: [],
  watch: [],
};

/** Returns the whole name of a command of etcdctl that `typed` shortens. `parents` are the names before it. */
export function wholeName(parents: readonly string[], typed: string): string {
  const [parent] = parents;
  const names = parent === undefined ? Object.keys(COMMANDS) : (COMMANDS[parent] ?? []);
  const [whole, ...others] = names.filter((name) => name.startsWith(typed));
  return names.includes(typed) || whole === undefined || others.length > 0 ? typed : whole;
}
