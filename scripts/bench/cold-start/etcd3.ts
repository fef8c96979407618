import { Etcd3 } from 'etcd3';

const [endpoint = '', key = ''] = process.argv.slice(2);
if ((await new Etcd3({ hosts: endpoint }).get(key)) === null) process.exit(1);
process.exit();
