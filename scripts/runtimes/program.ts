import { type Conformance, conformance, contend } from './conformance.js';

// The entry point for runtimes that run programs. `conform JSON` runs the conformance checks with JSON as their
// settings (an object of type `Conformance`), and prints the results. `contend ENDPOINT LOCK` acquires and releases the
// lock repeatedly until SIGTERM.

const [task, argument = '', lock = ''] = process.argv.slice(2);
const done = task === 'contend' ? contendUntilSignal() : conform();
// There is no top-level await, because a single executable application of Node.js runs a script instead of a module.
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
