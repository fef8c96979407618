import { expect, test } from 'vitest';
import { shownCommand, withoutShellSecrets } from '../src/commands/shell-words.js';

const PW = 'hunter2';

test.each([
  [['curl', '-u', `root:${PW}`, 'http://a:2379'], 'curl -u … http://a:2379'],
  [['curl', `-uroot:${PW}`], 'curl -u…'],
  [['curl', '-H', `Authorization: Bearer ${PW}`, '-X', 'POST'], 'curl -H Authorization:… -X POST'],
  [['curl', '-H', `Grpc-Metadata-Token: ${PW}`], 'curl -H Grpc-Metadata-Token:…'],
  [['curl', '-b', `session=${PW}`], 'curl -b …'],
  [['curl', `--cookie=a=${PW}`], 'curl --cookie=…'],
  [['curl', `http://root:${PW}@a:2379/v3?x=${PW}`], "curl 'http://…@a:2379/v3?…'"],
  [['curl', `root:${PW}@a:2379`], 'curl …@a:2379'],
  [['curl', '-d', `{"name":"a","password":"${PW}"}`], `curl -d '{"name":"a","password":…'`],
  [['curl', '-d', `name=a&password=${PW}`], "curl -d 'name=a&password=…'"],
  [['redis-cli', '-a', PW], 'redis-cli -a …'],
  [['mysql', `-p${PW}`], 'mysql -p…'],
  [['prog', '-password', PW], 'prog -password …'],
  [['prog', '--api-key', PW], 'prog --api-key …'],
  [['prog', `--oauth2-bearer=${PW}`], 'prog --oauth2-bearer=…'],
  [['env', `ETCDCTL_PASSWORD=${PW}`, 'true'], 'env ETCDCTL_PASSWORD=… true'],
  [['env', `ETCDCTL_USER=root:${PW}`, 'true'], 'env ETCDCTL_USER=… true'],
  [['env', `ETCDCTL_AUTH_JWT_TOKEN=${PW}`, 'true'], 'env ETCDCTL_AUTH_JWT_TOKEN=… true'],
  [['sh', '-c', `curl -u root:${PW} http://a`], "sh -c 'curl -u … http://a'"],
  [['sh', '-c', `PGPASSWORD=${PW} psql`], 'sh -c PGPASSWORD=…'],
  [['etcdctl', '--user', `root:${PW}`, 'get', 'a'], 'etcdctl --user root:… get a'],
  [['etcdctl', `--user=root:${PW}`], 'etcdctl --user=root:…'],
  [['etcdctl', '--user', 'root', '--password', PW, 'get', 'a'], 'etcdctl --user root --password … get a'],
  [['etcdwire', 'user', '-w', 'simple', 'add', `ann:${PW}`], 'etcdwire user -w simple add ann:…'],
  [['etcdwire', 'user', 'add', 'ann', '--new-user-password', PW], 'etcdwire user add ann --new-user-password …'],
  [['etcdwire', '--dest-user', `a:${PW}`, `--dest-password=${PW}`], 'etcdwire --dest-user a:… --dest-password=…'],
])('the title of the command %j is %s', (words, title) => {
  expect(shownCommand(words)).toBe(title);
});

test.each([
  ['etcdwire', 'get', 'config/color', '--prefix', '-w', 'json'],
  ['etcdwire', '--plaintext-auth', 'lock', 'jobs/nightly', '--', './job.sh', '--fast'],
  ['etcdctl', '--endpoints', 'http://a:2379,http://b:2379', 'put', 'k', 'v'],
  ['node', 'server.js', '--port=8080'],
  ['python', '-u', 'server.py'],
])('the title of a command without secrets shows all its words: %s %s %s %s %s', (...words) => {
  const given = words.filter((word) => word !== undefined);
  expect(shownCommand(given)).toBe(given.join(' '));
});

test.each([
  [
    `P_PASSWORD='${PW} x' etcdctl --password  "${PW} y" get a; echo b`,
    `P_PASSWORD=… etcdctl --password  … get a; echo b`,
  ],
  [`curl -u "root:${PW}" 'http://a/x'`, "curl -u … 'http://a/x'"],
  [`curl -H "Authorization: ${PW}"`, 'curl -H Authorization:…'],
  [`sh -c "sh -c 'curl -u root:${PW}'"`, "sh -c 'sh -c '\\''curl -u …'\\'''"],
  [`echo "unfinished --token ${PW}`, 'echo "unfinished --token …'],
])('the shell command %s is shown as %s', (command, shown) => {
  expect(withoutShellSecrets(command)).toBe(shown);
});

test('a long word without a secret is read in linear time', () => {
  for (const word of ['a'.repeat(100_000), '://'.repeat(30_000), '"'.repeat(50_000), 'a=@'.repeat(30_000)])
    expect(shownCommand([word]).length).toBeGreaterThan(0);
});
