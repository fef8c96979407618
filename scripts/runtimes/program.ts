import { conformance, contend } from './conformance.js';

// On a host with processes: conform <endpoint> <name> <lock>, or contend <endpoint> <lock> until SIGTERM.

const [task, endpoint = '', ...rest] = process.argv.slice(2);
if (task === 'contend') {
  let goesOn = true;
  process.once('SIGTERM', () => {
    goesOn = false;
  });
  await contend(endpoint, rest[0] ?? '', () => goesOn);
} else {
  const [name = '', lock = ''] = rest;
  console.log(JSON.stringify(await conformance(endpoint, name, lock)));
}
