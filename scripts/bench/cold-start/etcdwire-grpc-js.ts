import { grpcJs } from '../../../src/grpc-js.js';
import { Client } from '../../../src/index.js';

const [endpoint = '', key = ''] = process.argv.slice(2);
if ((await new Client({ endpoints: [endpoint], transport: grpcJs }).get(key)) === undefined) process.exit(1);
process.exit();
