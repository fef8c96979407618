import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { cli } from '../support/cli.js';
import { goProgram } from '../support/go-program.js';
import { ownEtcd } from '../support/own-etcd.js';
import { temporaryFolder } from '../support/temporary-folder.js';

// The Go program in go-kubernetes/main.go uses the package storage/etcd3 of k8s.io/apiserver, with which the API server
// of Kubernetes reads and writes its objects.

/** The first run builds the Go program with all its dependencies. */
const TIMEOUT_MS = 900_000;

test('etcdwire shows what the storage of the Kubernetes API server reads and writes', { timeout: TIMEOUT_MS }, async ({
  skip,
}) => {
  if (!inject('thorough')) return skip('only the mode `all` builds the storage of Kubernetes, which takes minutes');
  if (inject('server') === 'memory') return skip('one server is enough to test what etcdwire shows');
  const program = await goProgram(join(import.meta.dirname, 'go-kubernetes'));
  if ('missing' in program) return skip(program.missing);
  const { endpoints } = await ownEtcd();
  const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const traced = await cli(['trace', '--record', file, '--', program.path, '{endpoints}'], { environment });
  expect(traced.code).toBe(0);
  const shown = await cli(['show', file]);
  for (const line of [
    '> get every Pod ',
    '> watch every Pod ',
    /> if Pod default\/web does not exist: put Pod default\/web = v1 Pod, \d+ bytes of protobuf /,
    /> if the mod revision of Pod default\/web = \d+: put Pod default\/web = v1 Pod, \d+ bytes of protobuf /,
    /< .*\bPod default\/web = v1 Pod, \d+ bytes of protobuf.* · Watch /,
    '> get every Pod in default ',
    '< found Pod default/web ',
    /> if the mod revision of Pod default\/web = \d+: delete Pod default\/web /,
    /< .*\bPod default\/web was deleted .* · Watch /,
    /put Node worker-1 = v1 Node, \d+ bytes of protobuf /,
    /put Service default\/api = v1 Service, \d+ bytes of protobuf /,
    /put Event default\/web\.1 = v1 Event, \d+ bytes of protobuf /,
    /put Secret default\/token = encrypted by aescbc v1 with key1, \d+ bytes /,
    /put widgets\.example\.com default\/w1 = example\.com\/v1 Widget, \d+ bytes of JSON /,
  ])
    expect(shown.stdout).toMatch(line);
  expect(shown.stdout).not.toContain('base64:');
  const page = join(temporaryFolder(), 'traffic.html');
  expect((await cli(['show', file, '--html', page])).code).toBe(0);
  const html = readFileSync(page, 'utf8');
  expect(html).toContain('put Pod default/web = v1 Pod');
  expect(html).toContain('field 2, length-delimited: raw: bytes');
  const table = await cli(['get', '--prefix', '/registry/', '-w', 'table'], { environment });
  expect(table.stdout).toMatch(/^\/registry\/minions\/worker-1 +v1 Node, \d+ bytes of protobuf /m);
  const simple = await cli(['get', '/registry/minions/worker-1', '-w', 'simple'], { environment });
  expect(simple.stdout).toMatch(/\nk8s\\u0000/);
});
