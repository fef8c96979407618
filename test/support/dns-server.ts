import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { onTestFinished } from 'vitest';

/** The records of one name: addresses, or `priority weight port target` for SRV. */
export interface DnsRecords {
  readonly A?: readonly string[];
  readonly AAAA?: readonly string[];
  readonly SRV?: readonly string[];
}

/** A DNS server for a test. */
export interface DnsServer {
  /** The address of the server, such as `127.0.0.1:53535`. */
  readonly address: string;
  /** A resolver that asks only this server, and does not wait long for an answer. */
  readonly resolver: Resolver;
  /** The names of the requests, in order. */
  readonly asked: readonly string[];
  /**
   * The records of each name. A test may change them. `broken` makes the server answer SERVFAIL. `silent` makes the
   * server ignore requests.
   */
  readonly names: Record<string, DnsRecords | 'broken' | 'silent'>;
}

const TYPES = { A: 1, AAAA: 28, SRV: 33 } as const;
const CODES = { ok: 0, broken: 2, unknown: 3 } as const;

/**
 * Starts a DNS server (RFC 1035) on this machine, and stops it when the test ends. The server knows only the given
 * names.
 */
export async function dnsServer(names: DnsServer['names']): Promise<DnsServer> {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (request, { port, address }) => {
    const { name, end } = nameAt(request, 12);
    const type = request.readUInt16BE(end);
    const question = request.subarray(12, end + 4);
    asked.push(name);
    const known = names[name];
    if (known === 'silent') return;
    const records = typeof known === 'object' ? recordsOf(known, type) : [];
    const code = known === undefined ? CODES.unknown : known === 'broken' ? CODES.broken : CODES.ok;
    const header = Buffer.alloc(12);
    request.copy(header, 0, 0, 2);
    header.writeUInt16BE(0x8580 | code, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(records.length, 6);
    const answers = records.map((data) => {
      const fixed = Buffer.alloc(12);
      fixed.writeUInt16BE(0xc00c, 0);
      fixed.writeUInt16BE(type, 2);
      fixed.writeUInt16BE(1, 4);
      fixed.writeUInt16BE(data.length, 10);
      return Buffer.concat([fixed, data]);
    });
    socket.send(Buffer.concat([header, question, ...answers]), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  onTestFinished(() => void socket.close());
  const address = `127.0.0.1:${socket.address().port}`;
  const resolver = new Resolver({ timeout: 100, tries: 1 });
  resolver.setServers([address]);
  return { address, resolver, asked, names };
}

function recordsOf(records: DnsRecords, type: number): Buffer[] {
  if (type === TYPES.A) return (records.A ?? []).map((address) => Buffer.from(address.split('.').map(Number)));
  if (type === TYPES.AAAA) return (records.AAAA ?? []).map(ipv6);
  if (type !== TYPES.SRV) return [];
  return (records.SRV ?? []).map((record) => {
    const [priority = '', weight = '', port = '', target = ''] = record.split(' ');
    const numbers = Buffer.alloc(6);
    for (const [index, number] of [priority, weight, port].entries()) numbers.writeUInt16BE(Number(number), index * 2);
    const labels = target.split('.').filter((label) => label !== '');
    return Buffer.concat([
      numbers,
      ...labels.map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
      Buffer.from([0]),
    ]);
  });
}

/** Returns the bytes of an address, in which `::` may stand for zeros. */
function ipv6(address: string): Buffer {
  const [head = '', tail = ''] = address.split('::');
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const [first, last] = [groups(head), groups(tail)];
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last];
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 0xff]));
}

function nameAt(bytes: Buffer, start: number): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = start;
  for (let length = bytes[at] ?? 0; length > 0; length = bytes[at] ?? 0) {
    labels.push(bytes.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}
