import { type Conformance, conformance, contend } from './conformance.js';

// On a host with processes: conform <JSON>, or contend <endpoint> <lock> until SIGTERM.

const [task, argument = '', lock = ''] = process.argv.slice(2);
const done = task === 'contend' ? contendUntilTold() : conform();
// Not awaited here: a single executable is a script, and no module.
done.catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

async function conform(): Promise<void> {
  console.log(JSON.stringify(await conformance(JSON.parse(argument) as Conformance)));
}

async function contendUntilTold(): Promise<void> {
  let goesOn = true;
  process.once('SIGTERM', () => {
    goesOn = false;
  });
  await contend(argument, lock, () => goesOn);
}
