import { Client } from '../../../src/index.js';

const [endpoint = '', key = ''] = process.argv.slice(2);
if ((await new Client({ endpoints: [endpoint] }).get(key)) === undefined) process.exit(1);
process.exit();
