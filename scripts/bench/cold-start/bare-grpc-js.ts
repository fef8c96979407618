import { openBareGrpcJs } from '../contenders/bare-grpc-js.js';

const [endpoint = '', key = ''] = process.argv.slice(2);
if ((await openBareGrpcJs(endpoint).get(key)) === 0) process.exit(1);
process.exit();
