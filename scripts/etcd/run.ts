import { spawn } from 'node:child_process';

/** Runs a program to its end. Resolves with its output; rejects with the end of what it said otherwise. */
export function run(program: string, args: readonly string[], cwd?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk;
    });
    child.on('error', (error) => reject(new Error(`${program}: ${error.message}`)));
    child.on('close', (code) => {
      if (code === 0) resolve(stdout);
      else
        reject(
          new Error(
            `${program} ${args[0] ?? ''}: exit ${code}: ${(stderr || stdout).trim().split('\n').slice(-3).join(' | ')}`,
          ),
        );
    });
  });
}
