import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { prefix } from '../../../src/index.js';
import { containing } from '../../../src/testing/index.js';
import { cli, cliJson, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { faultProxy } from '../../../test/support/fault-proxy.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';

const etcdctl = inject('etcdctl');
/** The command that runs a program in a PID namespace of its own, as a container does. */
const UNSHARE = ['unshare', '--pid', '--fork', '--kill-child'];
const mayUnshare = spawnSync(UNSHARE[0] as string, [...UNSHARE.slice(1), 'true']).status === 0;

describe('etcdwire', () => {
  it("`lock` passes the queue key and the token to its command, releases the lock, and exits with the command's exit code", async () => {
    const name = unique('lock');
    const { code, stdout } = await cli(['lock', name, '--', 'sh', '-c', 'env; exit 7']);
    expect(code).toBe(7);
    const [, key] = /^ETCDWIRE_LOCK_KEY=(.*)$/m.exec(stdout) ?? [];
    const [, token] = /^ETCDWIRE_LOCK_TOKEN=(\d+)$/m.exec(stdout) ?? [];
    expect(key).toMatch(new RegExp(`^${name}/[0-9a-f]+$`));
    expect(stdout).toContain(`ETCD_LOCK_KEY=${key}\n`);
    expect(stdout).toContain(`ETCD_LOCK_REV=${token}\n`);
    const events = openClient().watch(key as string, { startRevision: BigInt(token as string) });
    const next = events[Symbol.asyncIterator]();
    expect((await next.next()).value).toMatchObject({ type: 'put', kv: { createRevision: BigInt(token as string) } });
    expect((await next.next()).value).toMatchObject({ type: 'delete' });
    await events.close();
  });

  it('`lock` passes standard input to its command', async () => {
    expect(await cli(['lock', unique(), '--', 'cat'], { stdin: 'through' })).toMatchObject({
      code: 0,
      stdout: 'through',
    });
  });

  it.each([
    [['lock', 'name', '--'], /^etcdwire: command: missing; give a command after --/],
    [
      ['elect', '--listen', 'name', 'value', '--', 'true'],
      /^etcdwire: value: got a value to proclaim together with --listen; allowed: only one of the two/,
    ],
    [['lock', 'name', '--timeout', '0s', '--', 'true'], /--timeout.*Allowed: a duration longer than 0/],
  ])('exits with exit code 64 and an error message for the arguments %j', async (args, stderr) => {
    expect(await cli(args)).toMatchObject({ code: 64, stderr: expect.stringMatching(stderr) });
  });

  it('`lock` exits with the same exit code as a shell when its command is killed or does not exist', async () => {
    const name = unique('lock');
    expect(await cli(['lock', name, '--', 'sh', '-c', 'kill -9 $$'])).toMatchObject({ code: 137 });
    const missing = await cli(['lock', name, '--', '/no/such/program']);
    expect(missing).toMatchObject({ code: 127, stderr: expect.stringMatching(/^etcdwire: cannot run .*\n$/) });
    expect((await openClient().range(prefix(`${name}/`))).count).toBe(0);
  });

  it("`lock` forwards a signal to its command, and exits with the command's exit code", async () => {
    const script = 'trap "echo told; exit 5" TERM; echo ready; while :; do sleep 0.05; done';
    const running = new RunningCli(['lock', unique(), '--', 'sh', '-c', script]);
    await running.lines(1);
    running.process.kill('SIGTERM');
    expect(await running.done).toMatchObject({ code: 5, stdout: 'ready\ntold\n' });
  });

  it('`lock` forwards every signal to its command, even repeated signals, and runs until the command exits', async () => {
    const names = ['USR1', 'USR2', 'QUIT', 'HUP', 'INT', 'TERM'] as const;
    const traps = names.map((name) => `trap 'echo ${name}' ${name};`).join(' ');
    const script = `${traps} trap 'exit 6' ALRM; echo ready; while :; do sleep 0.02; done`;
    const running = new RunningCli(['lock', unique(), '--', 'sh', '-c', `echo $$; ${script}`]);
    const [pid = ''] = await running.lines(2);
    let lines = 2;
    for (const name of [...names, ...names]) {
      running.process.kill(`SIG${name}`);
      lines += 1;
      expect((await running.lines(lines)).at(-1)).toBe(name);
    }
    process.kill(Number(pid), 'SIGALRM');
    expect(await running.done).toMatchObject({ code: 6 });
  });

  it('`lock` ends the child processes of its command when the lock is lost', async () => {
    const name = unique('lock');
    const script = '(trap "" TERM; echo $(exec sh -c \'echo $PPID\'); while :; do sleep 0.05; done) & wait';
    const running = new RunningCli(['lock', name, '--grace', '200ms', '--', 'sh', '-c', script]);
    const [pid = ''] = await running.lines(1);
    await openClient().delete(prefix(`${name}/`));
    expect(await running.done).toMatchObject({ code: 76 });
    expect(isAlive(pid)).toBe(false);
  });

  it('`lock` exits after the lock is lost even if etcdwire is process 1 of a container and zombie processes remain', async (context) => {
    if (!mayUnshare) return context.skip('this user may not create a PID namespace');
    const name = unique('lock');
    const script = '(trap "" TERM; echo ready; while :; do sleep 0.05; done) & wait';
    const args = ['lock', name, '--grace', '200ms', '--', 'sh', '-c', script];
    const running = new RunningCli(args, { under: [...UNSHARE] });
    await running.lines(1);
    await openClient().delete(prefix(`${name}/`));
    expect(await running.done).toMatchObject({ code: 76 });
  });

  it("`lock` exits with the command's exit code even if etcdwire cannot revoke its lease", async () => {
    const { endpoints, members } = await ownEtcd();
    const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
    const script = 'echo ready; read line; exit 3';
    // The client tries to revoke the lease until the lease expires, but for at most 10 s. The lease must outlast this
    // time, also on a busy machine, where the command takes seconds to start.
    const args = ['lock', '--ttl', '60', unique(), '--', 'sh', '-c', script];
    const running = new RunningCli(args, { environment });
    await running.lines(1);
    for (const each of members) each.pause();
    running.process.stdin.end('go\n');
    const { code, stderr } = await running.done;
    for (const each of members) each.resume();
    expect(stderr).toMatch(/^(etcdwire: (endpoint unavailable: .*|.* may stay locked for up to 60 s: .*)\n)+$/);
    expect(stderr).toContain('may stay locked');
    expect(code).toBe(3);
  });

  it('`lock` says who holds the lock and how many contenders are ahead, and when it gets the lock', async () => {
    const name = unique('lock');
    const first = new RunningCli(['lock', name]);
    const { key } = JSON.parse((await first.lines(1))[0] ?? '') as { readonly key: string };
    const second = new RunningCli(['lock', name]);
    await queueOf(name, 2);
    const third = new RunningCli(['lock', name, '--', 'sh', '-c', 'echo "$ETCDWIRE_LOCK_TOKEN"']);
    await queueOf(name, 3);
    await third.stderrMatches(/waiting/);
    second.process.kill('SIGINT');
    first.process.kill('SIGINT');
    const { stdout, stderr } = await third.done;
    expect(stderr).toBe(
      `etcdwire: waiting for the lock ${name}: ${key} holds it, and 1 other is ahead\n` +
        `etcdwire: acquired the lock ${name}, token ${stdout.trim()}\n`,
    );
  });

  it('`elect` shows the value of the present leader while it waits', async () => {
    const name = unique('lock');
    const first = new RunningCli(['elect', name, 'first value']);
    await first.lines(1);
    const second = new RunningCli(['elect', name, 'second value']);
    await second.stderrMatches(/^etcdwire: waiting for the leadership .* with the value "first value" holds it\n$/);
  });

  it('`lock` says within a second that its endpoint is dead', async () => {
    const running = new RunningCli(['lock', unique(), '--endpoints', 'http://127.0.0.1:1', '--', 'true']);
    await running.stderrMatches(/^etcdwire: endpoint unavailable: .*ECONNREFUSED/);
    expect(await running.done).toMatchObject({ code: 69 });
  });

  it('`lock` keeps its command running under etcdwire trace when the process that reads the trace closes the pipe', async () => {
    const name = unique('lock');
    const running = new RunningCli(['trace', '--', 'lock', name, '--', 'sh', '-c', 'read line; exit 4']);
    running.process.stderr.destroy();
    await queueOf(name, 1);
    running.process.stdin.end('go\n');
    expect(await running.done).toMatchObject({ code: 4 });
    await queueOf(name, 0);
  });

  it('`lock` exits and releases the lock when the process that reads the output of etcdwire closes the pipe', async () => {
    const name = unique('lock');
    const first = new RunningCli(['lock', name]);
    await first.lines(1);
    const second = new RunningCli(['lock', name]);
    await queueOf(name, 2);
    second.process.stdout.destroy();
    first.process.kill('SIGINT');
    expect(await second.done).toMatchObject({ code: 141 });
    await queueOf(name, 0);
  });

  it.each([
    ['SIGTERM to a command that does not ignore SIGTERM', 'echo ready; exec sleep 60'],
    ['SIGKILL to a command that ignores SIGTERM', 'trap "" TERM; echo ready; while :; do sleep 0.05; done'],
  ])('`lock` sends %s after the lock is lost', async (_, script) => {
    const name = unique('lock');
    const running = new RunningCli(['lock', name, '--grace', '200ms', '--', 'sh', '-c', script]);
    await running.lines(1);
    await openClient().delete(prefix(`${name}/`));
    const { code, stderr } = await running.done;
    expect(code).toBe(76);
    expect(stderr).toMatch(new RegExp(`^etcdwire: the lock ${name} was lost: .*\n$`));
  });

  it.each([
    ['lock', 'the lock', []],
    ['elect', 'the leadership of', ['value']],
  ])(
    '`%s` exits with code 76 after %s is lost, although its command handles SIGTERM and exits with code 0',
    async (command, what, value) => {
      const name = unique('lock');
      const script = 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done';
      const running = new RunningCli([command, name, ...value, '--grace', '10s', '--', 'sh', '-c', script]);
      await running.lines(1);
      await openClient().delete(prefix(`${name}/`));
      const { code, stderr } = await running.done;
      expect(code).toBe(76);
      expect(stderr).toContain(`etcdwire: ${what} ${name} was lost: `);
    },
  );

  it('`lock` without a command prints the queue key and holds the lock until SIGINT arrives', async () => {
    const name = unique('lock');
    const holder = new RunningCli(['-w', 'simple', 'lock', name]);
    const [key = ''] = await holder.lines(1);
    expect(await openClient().get(key)).toBeDefined();
    expect(await cli(['lock', '--try', name, '--', 'true'])).toMatchObject({
      code: 75,
      stderr: `etcdwire: another contender holds the lock ${name}\n`,
    });
    expect(await cli(['lock', '--timeout', '200ms', name, '--', 'true'])).toMatchObject({ code: 75 });
    // The waiter that timed out has left the queue.
    expect((await openClient().range(prefix(`${name}/`))).count).toBe(1);
    holder.process.kill('SIGINT');
    expect(await holder.done).toMatchObject({ code: 130 });
    expect(await openClient().get(key)).toBeUndefined();
  });

  it.each([
    ['two signals arrive at once', [], ['SIGTERM', 'SIGHUP']],
    [
      'a further signal arrives after its command has ended',
      ['--', 'sh', '-c', 'echo started; exec sleep 60'],
      ['SIGHUP'],
    ],
  ] as const)('`lock` releases the lock on another connection when %s', async (_, command, first) => {
    const name = unique('lock');
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const holder = new RunningCli(['--endpoints', proxy.endpoint, 'lock', '--ttl', '60', name, ...command]);
    await holder.lines(1);
    const [{ key = '' } = {}] = (await openClient().range(prefix(`${name}/`))).kvs;
    const held = proxy.holdNextRequest(containing(key));
    for (const signal of first) holder.process.kill(signal);
    await held;
    if (command.length > 0) {
      // Holds the second try of the release too, so that the program has not released the lock when the signal arrives.
      void proxy.holdNextRequest(containing(key));
      holder.process.kill('SIGTERM');
    }
    await holder.done;
    await queueOf(name, 0);
  });

  it('`lock` exits at once on a second signal, even if the frozen server does not answer the release', async () => {
    const { endpoints, members } = await ownEtcd();
    const holder = new RunningCli(['--endpoints', endpoints.join(), 'lock', unique('lock')]);
    await holder.lines(1);
    for (const each of members) each.pause();
    const repeat = setInterval(() => holder.process.kill('SIGINT'), 100);
    onTestFinished(() => clearInterval(repeat));
    const { code, stderr } = await holder.done;
    for (const each of members) each.resume();
    // While Node.js exits, it handles signals no longer. A shell shows both ends of the process as 130.
    expect(code ?? holder.process.signalCode).toBeOneOf([130, 'SIGINT']);
    expect(stderr).not.toContain('may stay locked');
  });

  it.each([
    ['SIGINT', 130],
    ['SIGQUIT', 131],
    ['SIGUSR2', 140],
  ] as const)(
    '`lock` leaves the queue and exits when %s arrives during the wait for the lock',
    async (signal, code) => {
      const name = unique('lock');
      const holder = new RunningCli(['lock', name]);
      await holder.lines(1);
      const waiter = new RunningCli(['lock', name, '--', 'true']);
      await queueOf(name, 2);
      waiter.process.kill(signal);
      expect(await waiter.done).toMatchObject({ code });
      await queueOf(name, 1);
    },
  );

  it('`lock` waits while etcdctl lock holds the lock, and etcdctl lock waits while etcdwire lock holds the lock', async (context) => {
    if (etcdctl === undefined) return context.skip('the server in use comes without etcdctl');
    const name = unique('lock');
    const theirs = startEtcdctl(['lock', name]);
    await theirs.line();
    const ours = new RunningCli(['lock', name]);
    await queueOf(name, 2);
    const theirsAgain = startEtcdctl(['lock', name, 'echo', 'theirs again']);
    await queueOf(name, 3);
    expect(await cli(['lock', '--try', name, '--', 'true'])).toMatchObject({ code: 75 });
    theirs.kill('SIGINT');
    const [line = ''] = await ours.lines(1);
    expect((await openClient().get(JSON.parse(line).key))?.createRevision).toBe(BigInt(JSON.parse(line).token));
    ours.process.kill('SIGINT');
    expect(await theirsAgain.line()).toBe('theirs again');
    await ours.done;
  });
});

describe('etcdwire elect', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    '`elect --listen` exits with 0 after %s in the mode of etcdctl',
    async (signal) => {
      const name = unique('election');
      const leader = new RunningCli(['elect', name, 'value']);
      await leader.lines(1);
      const listener = new RunningCli(['--etcdctl', 'elect', '-l', name]);
      await listener.lines(2);
      listener.process.kill(signal);
      expect(await listener.done).toMatchObject({ code: 0, stderr: '' });
    },
  );

  it('proclaims the given value, and runs the command as the leader', async () => {
    const name = unique('election');
    const running = new RunningCli(['elect', name, 'node-1', '--', 'sh', '-c', 'echo $ETCDWIRE_LOCK_KEY; cat']);
    const [key = ''] = await running.lines(1);
    expect((await openClient().get(key))?.text()).toBe('node-1');
    running.process.stdin.end();
    expect(await running.done).toMatchObject({ code: 0 });
  });

  it('--listen prints the leaders of both etcdwire elect and etcdctl elect', async (context) => {
    if (etcdctl === undefined) return context.skip('the server in use comes without etcdctl');
    const name = unique('election');
    const listener = new RunningCli(['-w', 'simple', 'elect', '--listen', name]);
    const first = new RunningCli(['elect', name, 'ours']);
    await first.lines(1);
    await listener.lines(2);
    const theirs = startEtcdctl(['elect', name, 'theirs']);
    await queueOf(name, 2);
    first.process.kill('SIGINT');
    expect((await listener.lines(4)).filter((_, index) => index % 2 === 1)).toEqual(['ours', 'theirs']);
    theirs.kill('SIGINT');
  });

  it('exits with exit code 64 when the arguments contain neither a value nor --listen', async () => {
    expect(await cli(['elect', unique()])).toMatchObject({ code: 64 });
  });
});

it('etcdwire lock prints the queue key and the token as JSON when no command is given', async () => {
  const name = unique('lock');
  const holder = new RunningCli(['lock', name]);
  const { key, token } = JSON.parse((await holder.lines(1))[0] ?? '');
  const { kvs } = await cliJson<{ kvs: { create_revision: string }[] }>(['get', key]);
  expect(kvs[0]?.create_revision).toBe(token);
});

/** Waits until the queue of the lock or election `name` has `count` keys. */
async function queueOf(name: string, count: number): Promise<void> {
  const etcd = openClient();
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(count);
}

function startEtcdctl(args: readonly string[]): { line(): Promise<string>; kill(signal: NodeJS.Signals): void } {
  const child = spawn(etcdctl as string, ['--endpoints', inject('endpoints').join(','), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { line: async () => (await lines.next()).value, kill: (signal) => void child.kill(signal) };
}

/** Whether the process is alive. A zombie, whose parent has not read its exit code yet, does not count as alive. */
function isAlive(pid: string): boolean {
  try {
    return !/\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
