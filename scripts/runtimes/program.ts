import { type Conformance, conformance, contend } from './conformance.js';

// The entry point for runtimes that run programs. `conform JSON` runs the checks and prints their results.
// `contend ENDPOINT LOCK` takes the lock again and again until SIGTERM.

const [task, argument = '', lock = ''] = process.argv.slice(2);
const done = task === 'contend' ? contendUntilSignal() : conform();
// There is no top-level await, because a single executable runs a script rather than a module.
done.catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

async function conform(): Promise<void> {
  console.log(JSON.stringify(await conformance(JSON.parse(argument) as Conformance)));
}

async function contendUntilSignal(): Promise<void> {
  let isActive = true;
  process.once('SIGTERM', () => {
    isActive = false;
  });
  await contend(argument, lock, () => isActive);
}
