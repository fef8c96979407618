import { describe, expect, it } from 'vitest';
import { prefix } from '../../../src/index.js';
import { cli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { SHORT_TTL, Steps, stateOf } from '../../../test/support/steps.js';
import { CTRL_C, CTRL_Z, NO_TERMINAL, Terminal } from '../../../test/support/terminal.js';

// The terminal echoes the text that a test types. The typed commands contain quotes, such as "h"ello, that the shell
// removes. So a pattern such as /hello/ matches only the output of a command, and not the echo of the command itself.

describe.skipIf(NO_TERMINAL !== undefined)(
  `etcdwire lock on a terminal${NO_TERMINAL ? ` (skipped: ${NO_TERMINAL})` : ''}`,
  () => {
    it.each([
      ['a pipe', 'echo data | '],
      ['the terminal', ''],
    ])('runs a command that can open /dev/tty when standard input is %s', async (_, before) => {
      const terminal = new Terminal();
      terminal.type(`${before}etcdwire lock ${unique()} -- sh -c 'echo "h"ello > /dev/tty'; echo 'co'de=$?\n`);
      await terminal.until(/hello/);
      await terminal.until(/code=0/);
    });

    it('passes terminal input to the command both before Ctrl-Z and after fg', async () => {
      const terminal = new Terminal();
      const script = 'echo "re"ady; read a; echo "fir"st=$a; read b; echo "seco"nd=$b';
      terminal.type(`etcdwire lock ${unique()} -- sh -c '${script}'; echo 'co'de=$?\n`);
      await terminal.until(/ready/);
      terminal.type('one\n');
      await terminal.until(/first=one/);
      terminal.type(CTRL_Z);
      await terminal.until(/Stopped/);
      terminal.type('fg\n');
      terminal.type('two\n');
      await terminal.until(/second=two/);
    });

    it('continues the command in the background after Ctrl-Z and bg, until the command reads the terminal and is suspended', async () => {
      const terminal = new Terminal();
      const script = 'echo "re"ady; while [ ! -e go ]; do sleep 0.05; done; echo "wen"t on; read a; echo "go"t=$a';
      terminal.type(`cd $(mktemp -d); etcdwire lock ${unique()} -- sh -c '${script}'\n`);
      await terminal.until(/ready/);
      terminal.type(CTRL_Z);
      await terminal.until(/Stopped/);
      terminal.type('bg\n');
      terminal.type('touch go\n');
      await terminal.until(/went on/);
      terminal.type('while ! jobs | grep -q Stopped; do sleep 0.05; done; echo "stop"ped again; fg\n');
      await terminal.until(/stopped again/);
      terminal.type('line\n');
      await terminal.until(/got=line/);
    });

    it.each([
      ['a pipe', 'echo data | '],
      ['the terminal', ''],
    ])(
      'ends a command that Ctrl-Z has suspended for longer than the TTL when standard input is %s',
      async (_, before) => {
        const steps = await Steps.begin();
        const terminal = new Terminal();
        const line = ['etcdwire', 'lock', steps.name, '--ttl', SHORT_TTL, '--', ...steps.command()].join(' ');
        terminal.type(`${before}${line}; echo 'co'de=$?\n`);
        const [, first] = await terminal.until(/\d+ \d+ (\d+)\r/);
        terminal.type(CTRL_Z);
        await terminal.until(/Stopped/);
        const second = await steps.holder('lock', 20);
        expect(await second.running.done).toMatchObject({ code: 0 });
        terminal.type("fg; echo 'fg'=$?\n");
        await terminal.until(/ was lost: /);
        await terminal.until(/fg=76/);
        expect(await steps.turns()).toEqual([Number(first), second.token]);
      },
    );

    it.each([
      ['a pipe', 'echo data | '],
      ['the terminal', ''],
    ])('delivers one SIGINT to the command for each Ctrl-C when standard input is %s', async (_, before) => {
      const terminal = new Terminal();
      const script = 'trap "echo \\"to\\"ld" INT; trap "exit 5" TERM; echo "p"id=$$; while :; do sleep 0.05; done';
      terminal.type(`${before}etcdwire lock ${unique()} -- sh -c '${script}'; echo 'co'de=$?\n`);
      const [, pid] = await terminal.until(/pid=(\d+)/);
      terminal.type(CTRL_C);
      await terminal.until(/told/);
      process.kill(Number(pid), 'SIGTERM');
      const [output] = await terminal.until(/.*code=5/s);
      expect(output).not.toContain('told');
    });

    it('ends an orphaned child process of the command when the lock is lost, even if the child ignores SIGTERM', async () => {
      const name = unique('lock');
      const terminal = new Terminal();
      // The subshell that starts the orphan ends at once, and process 1 becomes the parent of the orphan.
      const orphan = 'trap \\"\\" TERM; echo \\"orph\\"an=\\$\\$; while :; do sleep 0.05; done';
      const script = `(sh -c "${orphan}" &); sleep 60`;
      terminal.type(`etcdwire lock ${name} --grace 200ms -- sh -c '${script}'; echo 'co'de=$?\n`);
      const [, pid] = await terminal.until(/orphan=(\d+)/);
      await openClient().delete(prefix(`${name}/`));
      await terminal.until(/code=76/);
      expect(stateOf(Number(pid))).toBeUndefined();
    });

    it('ends the command when etcdwire is killed', async () => {
      const terminal = new Terminal();
      const script = 'echo "p"ids=$PPID,$$,; sleep 60; echo "wen"t on';
      terminal.type(`etcdwire lock ${unique()} -- sh -c '${script}'; echo 'co'de=$?\n`);
      const [, etcdwire, command] = await terminal.until(/pids=(\d+),(\d+),/);
      process.kill(Number(etcdwire), 'SIGKILL');
      await terminal.until(/code=137/);
      await expect.poll(() => stateOf(Number(command))).toBeUndefined();
    });

    it('ends the command and releases the lock when the terminal is closed', async () => {
      const name = unique('lock');
      const terminal = new Terminal();
      terminal.type(`etcdwire lock ${name} --ttl 60 -- sh -c 'echo "p"id=$$; exec sleep 60'\n`);
      const [, pid] = await terminal.until(/pid=(\d+)/);
      terminal.process.kill('SIGKILL');
      expect(await cli(['lock', name, '--', 'true'])).toMatchObject({ code: 0 });
      expect(stateOf(Number(pid))).toBeUndefined();
    });

    it('ends a suspended command and releases the lock when the terminal is closed', async () => {
      const name = unique('lock');
      const terminal = new Terminal();
      terminal.type(`etcdwire lock ${name} --ttl 60 -- sh -c 'echo "p"id=$$; exec sleep 60'\n`);
      const [, pid] = await terminal.until(/pid=(\d+)/);
      terminal.type(CTRL_Z);
      await terminal.until(/Stopped/);
      terminal.process.kill('SIGKILL');
      expect(await cli(['lock', name, '--', 'true'])).toMatchObject({ code: 0 });
      expect(stateOf(Number(pid))).toBeUndefined();
    });
  },
);
