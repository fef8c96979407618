import { parseArgs } from 'node:util';
import { etcdwireWay, goWay, handOffs, type Way } from './bench/contenders.js';
import { startEtcd } from './etcd.js';

// Hand-offs of a contended lock a second: the wait of etcdwire beside that of Go's concurrency package, interleaved, on
// one member: bench-lock.ts [--contenders 10] [--seconds 3] [--rounds 5] [--json]

const { values } = parseArgs({
  options: {
    contenders: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean', default: false },
  },
});

const ways: readonly [string, Way][] = [
  ['etcdwire', etcdwireWay],
  ['the way Go waits', goWay],
];

interface Row {
  readonly way: string;
  readonly otherWrites: boolean;
  /** Hand-offs a second, one number a round, ascending. */
  readonly rates: number[];
}

const etcd = await startEtcd();
const [contenders, seconds, rounds] = [values.contenders, values.seconds, values.rounds].map(Number) as [
  number,
  number,
  number,
];
const rows: Row[] = [false, true].flatMap((otherWrites) => ways.map(([way]) => ({ way, otherWrites, rates: [] })));
try {
  await handOffs(etcd.endpoints, etcdwireWay, { contenders, seconds: 1, otherWrites: false });
  for (let round = 1; round <= rounds; round += 1) {
    for (const row of rows) {
      process.stderr.write(
        `round ${round} of ${rounds}: ${row.way}${row.otherWrites ? ', with other writes' : ''} …\n`,
      );
      const way = ways.find(([name]) => name === row.way)?.[1] as Way;
      row.rates.push(await handOffs(etcd.endpoints, way, { contenders, seconds, otherWrites: row.otherWrites }));
    }
  }
} finally {
  await etcd.stop();
}
for (const { rates } of rows) rates.sort((a, b) => a - b);
process.stdout.write(
  values.json ? `${JSON.stringify({ etcd: etcd.version, contenders, seconds, rows }, null, 2)}\n` : table(),
);

function table(): string {
  const lines = rows.map(({ way, otherWrites, rates }) => {
    const median = rates[Math.floor(rates.length / 2)] as number;
    const spread = `${Math.round(rates[0] as number)}–${Math.round(rates.at(-1) as number)}`;
    return `| ${way} | ${otherWrites ? 'yes' : 'no'} | ${Math.round(median)} | ${spread} |`;
  });
  return [
    `etcd ${etcd.version ?? ''}, one member, ${contenders} contenders in one process, ${rounds} rounds of ${seconds} s`,
    '',
    '| wait | other writes | hand-offs/s (median) | spread |',
    '|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}
