import { type Conformance, conformance, contend } from './conformance.js';

// The entry point for a host with processes: `conform JSON`, or `contend ENDPOINT LOCK` until SIGTERM.

const [task, argument = '', lock = ''] = process.argv.slice(2);
const done = task === 'contend' ? contendUntilSignal() : conform();
// There is no top-level await, because a single executable runs a script and not a module.
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
