import { spawn } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { PROGRAM } from '../../../test/support/cli.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { killGroup } from '../../../test/support/process-group.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

// This test runs the example shell sessions in the pages of the package. A command follows "$ ", and continues on lines
// that begin with "> ". All other lines are the output of the previous command.

const SESSIONS = ['README.md', 'docs/guide.md', 'docs/traffic.md'].flatMap((page) => {
  const text = readFileSync(new URL(`../${page}`, import.meta.url), 'utf8');
  const sessions = [...text.matchAll(/^```console\n(.*?)^```$/gms)].map(([, session]) => session as string);
  return sessions.map((session, index) => [index + 1, page, session] as const);
});

test.for(SESSIONS)('shell session %i in %s prints the output that the page shows', async ([, , session]) => {
  const { endpoints } = await ownEtcd();
  const folder = temporaryFolder();
  const program = join(folder, 'etcdwire');
  writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${PROGRAM} "$@"\n`);
  chmodSync(program, 0o755);
  const typed = [...session.matchAll(/^\$ (.*(?:\n> .*)*)\n/gm)].map(([, command]) => command as string);
  expect(typed.length).toBeGreaterThan(1);
  // One shell runs all commands, so that each command can print the exit code of the previous command.
  const script = typed.map(
    (command) =>
      `code=$?\necho '$ ${command.replaceAll("'", "'\\''")}'\n(exit $code)\n${command.replaceAll('\n> ', '\n')}`,
  );
  const env = {
    ...process.env,
    PATH: `${folder}${delimiter}${process.env.PATH}`,
    ETCDCTL_ENDPOINTS: endpoints.join(','),
  };
  // The shell leads a process group, so that a command that does not end does not outlive the test.
  const shell = spawn('sh', ['-c', script.join('\n')], {
    env,
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  onTestFinished(() => killGroup(shell.pid));
  expect(await text(shell.stdout)).toBe(session);
});
