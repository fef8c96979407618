import { type Conformance, conformance, contend } from './conformance.js';

// On a host with processes: conform <JSON>, or contend <endpoint> <lock> until SIGTERM.

const [task, argument = '', lock = ''] = process.argv.slice(2);
if (task === 'contend') {
  let goesOn = true;
  process.once('SIGTERM', () => {
    goesOn = false;
  });
  await contend(argument, lock, () => goesOn);
} else {
  console.log(JSON.stringify(await conformance(JSON.parse(argument) as Conformance)));
}
