import { createServer, type Socket } from 'node:net';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { Authority } from '../../../packages/cli/src/proxy/authority.js';
import { environment, replaceEnvironment } from '../../../src/base/environment.js';
import { Client, type LogDetails } from '../../../src/index.js';
import { discoverSrv, followDns, fromEnv, fromEnvWithDiscovery, resolveEndpoints } from '../../../src/node.js';
import { randomNumbers } from '../../load/rounds.js';
import { cli } from '../../support/cli.js';
import { openClient, unique } from '../../support/client.js';
import { type DnsServer, dnsServer } from '../../support/dns-server.js';
import { errorOf } from '../../support/errors.js';
import { useSecureEtcd } from '../../support/tls/secure-etcd.js';

const ETCD = new URL(inject('endpoints')[0] as string);
const PORT = Number(ETCD.port);

describe('`discoverSrv`', () => {
  const secure = '_etcd-client-ssl._tcp.example.test';
  const plain = '_etcd-client._tcp.example.test';

  test('returns https: endpoints before http: endpoints, by priority, without repetitions', async () => {
    const { resolver, asked } = await dnsServer({
      [secure]: { SRV: ['20 0 2379 c.test.', '10 0 2379 a.test', '10 0 2379 a.test.'] },
      [plain]: { SRV: ['0 0 22379 d.test'] },
    });
    const endpoints = await discoverSrv('example.test', { resolver });
    expect(endpoints).toEqual(['https://a.test:2379', 'https://c.test:2379', 'http://d.test:22379']);
    expect(asked.toSorted()).toEqual([secure, plain]);
  });

  test('appends the name of the cluster to both services', async () => {
    const { resolver, asked } = await dnsServer({ '_etcd-client-orders._tcp.example.test': { SRV: ['0 0 1 a.test'] } });
    expect(await discoverSrv('example.test', { resolver, serviceName: 'orders' })).toEqual(['http://a.test:1']);
    expect(asked.toSorted()).toEqual([
      '_etcd-client-orders._tcp.example.test',
      '_etcd-client-ssl-orders._tcp.example.test',
    ]);
  });

  test('chooses the first record of a priority with a probability in proportion to its weight', async () => {
    const { resolver } = await dnsServer({
      [plain]: { SRV: ['0 1 1 light.test', '0 9 1 heavy.test', '0 0 1 zero.test'] },
    });
    let heavy = 0;
    const random = randomNumbers(1);
    onTestFinished(replaceEnvironment(Object.create(environment, { Math: { value: { random } } })));
    for (let run = 0; run < 200; run += 1) {
      const [first] = await discoverSrv('example.test', { resolver });
      if (first === 'http://heavy.test:1') heavy += 1;
    }
    // The expected number is 180.
    expect(heavy).toBeGreaterThan(165);
    expect(heavy).toBeLessThan(195);
  });

  test('leaves out http: endpoints without `allowInsecure`, and does not ask for them', async () => {
    const { resolver, asked } = await dnsServer({
      [secure]: { SRV: ['0 0 1 a.test'] },
      [plain]: { SRV: ['0 0 1 b.test'] },
    });
    expect(await discoverSrv('example.test', { resolver, allowInsecure: false })).toEqual(['https://a.test:1']);
    expect(asked).toEqual([secure]);
  });

  test.each<[string, DnsServer['names'], object, RegExp]>([
    [
      'the domain has no records',
      {},
      {},
      /no endpoints found for the domain example\.test: .*ENOTFOUND.*; .*ENOTFOUND/,
    ],
    ['the domain does not offer the service', { [secure]: { SRV: ['0 0 0 .'] } }, {}, /no endpoints found/],
    ['the server fails', { [secure]: 'broken', [plain]: 'broken' }, {}, /ESERVFAIL/],
    ['the server does not answer', { [secure]: 'silent', [plain]: 'silent' }, {}, /ETIMEOUT/],
    [
      'it would have to use http: because the lookup for https: failed',
      { [secure]: 'broken', [plain]: { SRV: ['0 0 1 a.test'] } },
      {},
      /ESERVFAIL/,
    ],
    [
      'only http: endpoints exist and are not allowed',
      { [plain]: { SRV: ['0 0 1 a.test'] } },
      { allowInsecure: false },
      /ENOTFOUND/,
    ],
  ])('rejects with reason `ConnectFailed` when %s', async (_, names, options, message) => {
    const { resolver } = await dnsServer(names);
    const error = await errorOf(discoverSrv('example.test', { resolver, ...options }));
    expect(error).toMatchObject({ reason: 'ConnectFailed', code: 'Unavailable', outcome: 'not-sent' });
    expect(error.message).toMatch(message);
  });

  test('returns https: endpoints when only the lookup for http: fails', async () => {
    const { resolver } = await dnsServer({ [secure]: { SRV: ['0 0 1 a.test'] }, [plain]: 'broken' });
    expect(await discoverSrv('example.test', { resolver })).toEqual(['https://a.test:1']);
  });

  test('refuses records that do not contain a host name, and invalid arguments', async () => {
    for (const target of ['user@evil', 'a/b', 'a?b']) {
      const { resolver } = await dnsServer({ [secure]: { SRV: [`0 0 1 ${target}`] } });
      expect(await errorOf(discoverSrv('example.test', { resolver }))).toMatchObject({ reason: 'InvalidInput' });
    }
    for (const call of [
      () => discoverSrv(''),
      () => discoverSrv('example.test', { serviceName: '' }),
      () => discoverSrv('example.test', { resolver: {} as never }),
    ])
      expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput' });
  });
});

describe('`resolveEndpoints`', () => {
  test('returns one endpoint for each address, and keeps ports, IP addresses and Unix sockets', async () => {
    const { resolver } = await dnsServer({ 'etcd.test': { A: ['10.0.0.1', '10.0.0.2'], AAAA: ['fd00::1'] } });
    const urls = ['http://etcd.test:1', 'etcd.test:2', 'http://10.0.0.1:1', 'http://[::1]:3', 'unix:///run/etcd'];
    const { endpoints, serverName } = await resolveEndpoints(urls, { resolver });
    expect(endpoints).toEqual([
      ...['http://10.0.0.1:1', 'http://10.0.0.2:1', 'http://[fd00::1]:1'],
      ...['http://10.0.0.1:2', 'http://10.0.0.2:2', 'http://[fd00::1]:2'],
      ...['http://[::1]:3', 'unix:///run/etcd'],
    ]);
    expect(serverName).toBeUndefined();
  });

  test('uses the resolver of the system when the options contain no resolver', async () => {
    const { endpoints } = await resolveEndpoints([`http://localhost:${PORT}`]);
    expect(endpoints).toContain(`http://127.0.0.1:${PORT}`);
    await openClient({ endpoints, balance: 'in-order' }).get('a');
  });

  test.each<[string, DnsServer['names'], RegExp]>([
    ['a host name is unknown', { 'a.test': { A: ['10.0.0.1'] } }, /cannot resolve b\.test: .*ENOTFOUND/],
    [
      'a host name has no addresses',
      { 'a.test': { A: ['10.0.0.1'] }, 'b.test': {} },
      /cannot resolve b\.test: .*ENODATA/,
    ],
    ['the server fails', { 'a.test': { A: ['10.0.0.1'] }, 'b.test': 'broken' }, /cannot resolve b\.test: .*ESERVFAIL/],
  ])('rejects with reason `ConnectFailed` when %s', async (_, names, message) => {
    const { resolver } = await dnsServer(names);
    const error = await errorOf(resolveEndpoints(['http://a.test', 'http://b.test'], { resolver }));
    expect(error).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
    expect(error.message).toMatch(message);
  });

  test('refuses https: endpoints of different hosts, and other invalid arguments', async () => {
    for (const urls of [
      ['https://a.test', 'https://b.test'],
      ['https://a.test', 'https://10.0.0.1'],
      [],
      'http://a',
      ['ftp://a'],
    ])
      expect(await errorOf(resolveEndpoints(urls as string[]))).toMatchObject({ reason: 'InvalidInput' });
    const { endpoints } = await resolveEndpoints(['https://10.0.0.1', 'https://10.0.0.2']);
    expect(endpoints).toEqual(['https://10.0.0.1:2379', 'https://10.0.0.2:2379']);
  });

  test('lets a client use the second address of a host name when the first address accepts connections but does not answer', async (context) => {
    const { resolver } = await dnsServer({ 'etcd.test': { A: ['127.0.0.2', '127.0.0.1'] } });
    const sockets: Socket[] = [];
    const dead = createServer((socket) => void sockets.push(socket.on('error', () => {})));
    const isOpen = await new Promise<boolean>((resolve) => {
      dead.once('error', () => resolve(false)).listen(PORT, '127.0.0.2', () => resolve(true));
    });
    if (!isOpen) return context.skip('this machine does not have the address 127.0.0.2');
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      dead.close();
    });
    const { endpoints } = await resolveEndpoints([`http://etcd.test:${PORT}`], { resolver });
    const etcd = openClient({ endpoints, balance: 'in-order', connectTimeoutMs: 200 });
    await etcd.get('a');
    expect(sockets.length).toBeGreaterThan(0);
  });
});

describe('with TLS', async () => {
  const authority = await Authority.create();
  const secure = useSecureEtcd(authority);

  test('`resolveEndpoints` returns the name that the certificates contain', async () => {
    secure().show(await authority.issue({ names: ['etcd.test'] }));
    const { resolver } = await dnsServer({ 'etcd.test': { A: ['127.0.0.1'] } });
    const url = `https://etcd.test:${secure().port}`;
    const { endpoints, serverName } = await resolveEndpoints([url], { resolver });
    expect({ endpoints, serverName }).toEqual({ endpoints: [secure().endpoint], serverName: 'etcd.test' });
    await openClient({ endpoints, tls: { ca: authority.cert, serverName } }).get('a');
    const error = await errorOf(openClient({ endpoints, tls: { ca: authority.cert } }).get('a', { timeoutMs: 500 }));
    expect(error.message).toContain('set tls.serverName');
  });

  test('`fromEnvWithDiscovery` with insecure discovery off requires certificates for the domain', async () => {
    const { resolver } = await dnsServer({
      '_etcd-client-ssl._tcp.example.test': { SRV: [`0 0 ${secure().port} localhost`] },
      '_etcd-client._tcp.example.test': { SRV: ['0 0 1 plain.test'] },
    });
    const variables = { ETCDCTL_DISCOVERY_SRV: 'example.test', ETCDCTL_INSECURE_DISCOVERY: 'F' };
    const options = await fromEnvWithDiscovery({ variables, resolver });
    expect(options.endpoints).toEqual([secure().byName]);
    const tls = async () => ({ ...(await (options.tls as () => object)()), ca: authority.cert });
    const etcd = openClient({ ...options, tls });
    expect((await errorOf(etcd.get('a', { timeoutMs: 500 }))).message).toContain('is not in the cert');
    secure().show(await authority.issue({ names: ['example.test'] }));
    await etcd.get('a');
  });
});

describe('`followDns`', () => {
  test('passes changed addresses to the client, while a watch continues', async () => {
    const dns = await dnsServer({ 'etcd.test': { A: ['127.0.0.1'] } });
    const { resolver } = dns;
    const urls = [`http://etcd.test:${PORT}`];
    const etcd = openClient({ endpoints: (await resolveEndpoints(urls, { resolver })).endpoints });
    const key = unique();
    await using watch = etcd.watch(key);
    await watch.created();
    using following = followDns(etcd, urls, { resolver });
    await following.update();
    dns.names['etcd.test'] = { A: ['127.0.0.1', '127.0.0.3'] };
    await following.update();
    expect(etcd.endpoints).toEqual([`http://127.0.0.1:${PORT}`, `http://127.0.0.3:${PORT}`]);
    dns.names['etcd.test'] = { A: ['127.0.0.1'] };
    await following.update();
    expect(etcd.endpoints).toEqual([`http://127.0.0.1:${PORT}`]);
    await etcd.put(key, 'x');
    for await (const event of watch) {
      expect(event.type).toBe('put');
      break;
    }
  });

  test('repeats the lookup, also after one has failed, and logs the failure once', async () => {
    const dns = await dnsServer({ 'etcd.test': 'broken' });
    const lines: [string, LogDetails][] = [];
    const logger = {
      info: (text: string, details: LogDetails) => void lines.push([text, details]),
      warn: (text: string, details: LogDetails) => void lines.push([text, details]),
    };
    const etcd = openClient({ endpoints: ['http://10.0.0.9:1'] });
    using _following = followDns(etcd, ['http://etcd.test:1'], { resolver: dns.resolver, intervalMs: 1, logger });
    await expect.poll(() => dns.asked.length).toBeGreaterThan(4);
    expect(etcd.endpoints).toEqual(['http://10.0.0.9:1']);
    dns.names['etcd.test'] = { A: ['10.0.0.1'] };
    await expect.poll(() => etcd.endpoints).toEqual(['http://10.0.0.1:1']);
    expect(lines).toEqual([
      ['endpoints could not be resolved', { problem: expect.stringContaining('cannot resolve etcd.test: ') }],
      ['endpoints resolved again', { endpoints: ['http://10.0.0.1:1'] }],
    ]);
  });

  test('does not replace the endpoints when only the order of the addresses has changed', async () => {
    const dns = await dnsServer({ 'etcd.test': { A: ['10.0.0.1', '10.0.0.2'] } });
    const applied: (readonly string[])[] = [];
    const client = { setEndpoints: (urls: readonly string[]) => void applied.push(urls) };
    using following = followDns(client, ['http://etcd.test:1'], { resolver: dns.resolver });
    await following.update();
    dns.names['etcd.test'] = { A: ['10.0.0.2', '10.0.0.1'] };
    await following.update();
    const unchanged = ['http://10.0.0.1:1', 'http://10.0.0.2:1'];
    expect(applied).toEqual([unchanged, unchanged]);
  });

  test('ends when it is closed, also during a lookup, and when the client is closed', async () => {
    const dns = await dnsServer({ 'etcd.test': { A: ['10.0.0.1'] } });
    const etcd = new Client({ endpoints: ['http://10.0.0.9:1'] });
    const closed = followDns(etcd, ['http://etcd.test:1'], { resolver: dns.resolver, intervalMs: 1 });
    closed.close();
    await closed.update();
    await closed.update();
    expect(etcd.endpoints).toEqual(['http://10.0.0.9:1']);
    // Only the lookup that was under way asked, for the addresses of both families.
    expect(dns.asked.length).toBe(2);
    const asked = dns.asked.length;
    const other = followDns(etcd, ['http://etcd.test:1'], { resolver: dns.resolver });
    await etcd.close();
    await other.update();
    await other.update();
    // One lookup asks for the addresses of both families.
    expect(dns.asked.length - asked).toBe(2);
  });

  test('ends when the client is closed, although the addresses stay the same', async () => {
    const dns = await dnsServer({ 'etcd.test': { A: ['10.0.0.1'] } });
    const etcd = new Client({ endpoints: ['http://10.0.0.9:1'] });
    const following = followDns(etcd, ['http://etcd.test:1'], { resolver: dns.resolver });
    await following.update();
    await etcd.close();
    await following.update();
    const asked = dns.asked.length;
    await following.update();
    expect(dns.asked.length).toBe(asked);
  });

  test('refuses invalid arguments', async () => {
    const etcd = openClient();
    for (const call of [
      () => followDns({} as never, ['http://a']),
      () => followDns(etcd, []),
      () => followDns(etcd, ['http://a'], { intervalMs: 0 }),
      () => followDns(etcd, ['https://a', 'https://b']),
    ])
      expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput' });
  });
});

describe('`fromEnvWithDiscovery`', () => {
  test('finds the endpoints in DNS, and ignores ETCDCTL_ENDPOINTS', async () => {
    const { resolver } = await dnsServer({
      '_etcd-client-orders._tcp.example.test': { SRV: [`0 0 ${PORT} localhost`] },
    });
    const variables = {
      ETCDCTL_ENDPOINTS: 'http://nowhere.test',
      ETCDCTL_DISCOVERY_SRV: 'example.test',
      ETCDCTL_DISCOVERY_SRV_NAME: 'orders',
      ETCDCTL_COMMAND_TIMEOUT: '7s',
    };
    const options = await fromEnvWithDiscovery({ variables, resolver });
    expect(options).toMatchObject({ endpoints: [`http://localhost:${PORT}`], timeoutMs: 7_000 });
    await openClient(options).get('a');
    expect((await errorOf(() => fromEnv({ variables }))).message).toContain('fromEnvWithDiscovery');
  });

  test('does the same as `fromEnv` without ETCDCTL_DISCOVERY_SRV', async () => {
    const variables = { ETCDCTL_ENDPOINTS: 'a:1,b:2', ETCDCTL_DISCOVERY_SRV: '' };
    expect(await fromEnvWithDiscovery({ variables })).toEqual(fromEnv({ variables }));
    const error = await errorOf(fromEnvWithDiscovery({ variables: { ETCDCTL_DIAL_TIMEOUT: 'soon' } }));
    expect(error.reason).toBe('InvalidInput');
  });
});

describe('the command line', () => {
  /** Makes the program ask this DNS server. */
  const asking = ({ address }: DnsServer) => ({
    NODE_OPTIONS: `--import "data:text/javascript,import dns from 'node:dns'; dns.setServers(['${address}'])"`,
  });

  test('finds the members with --discovery-srv and --discovery-srv-name', async () => {
    const key = unique();
    await openClient().put(key, 'x');
    const dns = await dnsServer({ '_etcd-client-orders._tcp.example.test': { SRV: [`0 0 ${PORT} localhost`] } });
    const flags = ['--discovery-srv', 'example.test', '--discovery-srv-name', 'orders'];
    const environment = { ...asking(dns), ETCDCTL_ENDPOINTS: 'http://nowhere.test' };
    const { stdout, code } = await cli([...flags, 'get', '--print-value-only', key], { environment });
    expect([stdout.trim(), code]).toEqual(['x', 0]);
    const variables = { ETCDCTL_DISCOVERY_SRV: 'example.test', ETCDCTL_DISCOVERY_SRV_NAME: 'orders' };
    const again = await cli(['get', '--print-value-only', key], { environment: { ...environment, ...variables } });
    expect(again.stdout.trim()).toBe('x');
  });

  test('reports that no endpoints were found when only members without TLS have records and --insecure-discovery is false', async () => {
    const dns = await dnsServer({ '_etcd-client._tcp.example.test': { SRV: [`0 0 ${PORT} localhost`] } });
    const flags = ['--discovery-srv', 'example.test', '--insecure-discovery=false'];
    const { stderr, code } = await cli([...flags, 'get', 'a'], { environment: asking(dns) });
    expect(code).not.toBe(0);
    expect(stderr).toContain('etcdwire: no endpoints found for the domain example.test');
  });
});
