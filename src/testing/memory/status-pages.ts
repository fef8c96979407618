import { AlarmType } from '../../gen/etcdserverpb/rpc.js';
import { RELEASES } from '../etcd/versions.js';
import type { Page, Query } from '../http1-server/server.js';
import type { Member } from './member.js';
import { metricsPage } from './metrics.js';

// This file builds the pages that etcd serves over HTTP/1.1. The sources in etcd are in `etcdserver/api/etcdhttp`.

const TEXT = 'text/plain; charset=utf-8';

/** A check of `/livez` or `/readyz`. Returns why it failed, or undefined. */
type Check = (member: Member) => string | undefined;

/** A member in memory can always read its keys, and it is never a learner. */
const passes: Check = () => undefined;

const noCorruption: Check = ({ alarms }) =>
  alarms.list(AlarmType.CORRUPT).length > 0 ? 'alarm activated: CORRUPT' : undefined;

const CHECKS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  '/livez': { serializable_read: passes },
  '/readyz': {
    data_corruption: noCorruption,
    serializable_read: passes,
    linearizable_read: passes,
    non_learner: passes,
  },
};

/** Returns the page at a path, or undefined if etcd has none there. */
export function statusPage(
  member: Member,
  paths: readonly string[],
  method: string,
  path: string,
  query: Query,
): Page | undefined {
  if (path === '/metrics') return metricsPage(member, paths);
  const [root = '', name, ...more] = path.split('/').slice(1);
  const checks = CHECKS[`/${root}`];
  const isCheck = checks !== undefined && more.length === 0 && (name === undefined || Object.hasOwn(checks, name));
  if (path !== '/health' && path !== '/version' && !isCheck) return undefined;
  if (method !== 'GET') return textPage(405, 'Method Not Allowed', { allow: 'GET' });
  if (path === '/version') return versionPage(member);
  if (checks === undefined) return healthPage(member, query);
  const excluded = new Set(name === undefined ? query.getAll('exclude') : []);
  const chosen = Object.entries(checks).filter(([each]) => (name ?? each) === each && !excluded.has(each));
  return checkPage(member, chosen, query.has('verbose'));
}

function versionPage({ downgrade, settings: { version } }: Member): Page {
  const cluster = `${downgrade.clusterVersion}.0`;
  const versions = { etcdserver: RELEASES[version], etcdcluster: cluster };
  const body = JSON.stringify(version === '3.5' ? versions : { ...versions, storage: cluster });
  return { status: 200, headers: { 'content-type': 'application/json' }, body };
}

function healthPage({ alarms, counters, consensus }: Member, query: Query): Page {
  const excluded = new Set(query.getAll('exclude'));
  const names = alarms.list(AlarmType.NONE).map(({ alarm }) => alarmName(alarm));
  const raised = names.find((name) => !excluded.has(name));
  const needsLeader = !query.getAll('serializable').includes('true');
  const hasNoLeader = needsLeader && consensus.leaderId === 0n;
  const reason = raised === undefined ? hasNoLeader && 'RAFT NO LEADER' : `ALARM ${raised}`;
  if (reason === false) {
    counters.healthSuccesses += 1;
    return { status: 200, headers: { 'content-type': TEXT }, body: '{"health":"true","reason":""}' };
  }
  counters.healthFailures += 1;
  return textPage(503, JSON.stringify({ health: 'false', reason }));
}

function alarmName(alarm: AlarmType): string {
  if (alarm === AlarmType.NOSPACE) return 'NOSPACE';
  return alarm === AlarmType.CORRUPT ? 'CORRUPT' : 'UNKNOWN';
}

function checkPage(member: Member, checks: readonly (readonly [string, Check])[], verbose: boolean): Page {
  let report = '';
  let isFailed = false;
  for (const [name, check] of checks) {
    const problem = check(member);
    isFailed ||= problem !== undefined;
    report += problem === undefined ? `[+]${name} ok\n` : `[-]${name} failed: ${problem}\n`;
  }
  if (isFailed) return textPage(503, report);
  return { ...textPage(200, 'ok'), body: `${verbose ? report : ''}ok\n` };
}

/** Returns a page with a text and a line break, as Go's `http.Error` sends it. */
function textPage(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Page {
  return {
    status,
    headers: { 'content-type': TEXT, 'x-content-type-options': 'nosniff', ...headers },
    body: `${text}\n`,
  };
}
