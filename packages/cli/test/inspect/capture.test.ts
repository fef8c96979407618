import fc from 'fast-check';
import { expect, test } from 'vitest';
import { concatBytes } from '../../../../src/base/bytes.js';
import { type CapturedConnection, CaptureError, CaptureReader } from '../../src/inspect/capture-reader.js';
import { ConnectionDecoder } from '../../src/inspect/connection-decoder.js';
import { PcapngWriter } from '../../src/inspect/pcapng-writer.js';

interface Read {
  readonly connection: CapturedConnection;
  readonly sent: Uint8Array[];
  readonly received: Uint8Array[];
  isClosed: boolean;
}

/** Reads a capture in pieces of this many bytes. */
function readCapture(
  file: Uint8Array,
  pieceBytes: number,
): { readonly connections: readonly Read[]; readonly leftOut: number } {
  const connections: Read[] = [];
  const reader = new CaptureReader((connection) => {
    const read: Read = { connection, sent: [], received: [], isClosed: false };
    connections.push(read);
    return {
      bytes: (direction, bytes) => void read[direction].push(bytes),
      closed: () => {
        read.isClosed = true;
      },
    };
  });
  for (let at = 0; at < file.length; at += pieceBytes) reader.push(file.subarray(at, at + pieceBytes));
  reader.end();
  return { connections, leftOut: reader.leftOut };
}

const CLIENT = { host: '127.0.0.1', port: 40_000 };
const SERVER = { host: '10.0.0.1', port: 2_379 };

test('CaptureReader reads the bytes of all connections that PcapngWriter has written, in pieces of any size', () => {
  const write = fc.record({
    connection: fc.nat(2),
    direction: fc.constantFrom('sent' as const, 'received' as const),
    bytes: fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.constant(new Uint8Array(40_000).fill(7))),
  });
  fc.assert(
    fc.property(fc.array(write, { maxLength: 20 }), fc.integer({ min: 500, max: 90_000 }), (writes, pieceBytes) => {
      const parts: Uint8Array[] = [];
      const writer = new PcapngWriter((bytes) => void parts.push(bytes), 'a test');
      const addresses = [CLIENT, { ...CLIENT, port: 40_001 }, { host: 'fe80::1', port: 40_000 }];
      const opened = addresses.map((client, index) =>
        writer.open(client, SERVER, `connection ${index}`, 1_700_000_000_000),
      );
      for (const { connection, direction, bytes } of writes)
        opened[connection]?.bytes(direction, bytes, 1_700_000_000_001.5);
      opened[0]?.close(1_700_000_000_002);
      const { connections, leftOut } = readCapture(concatBytes(...parts), pieceBytes);
      expect(leftOut).toBe(0);
      expect(connections.map(({ isClosed }) => isClosed)).toEqual([true, false, false]);
      for (const [index, { connection, sent, received }] of connections.entries()) {
        expect(connection).toMatchObject({ comment: `connection ${index}`, atMs: 1_700_000_000_000 });
        for (const [direction, read] of [
          ['sent', sent],
          ['received', received],
        ] as const) {
          const written = writes.filter((each) => each.connection === index && each.direction === direction);
          const expected = concatBytes(...written.map(({ bytes }) => bytes));
          expect(Buffer.compare(concatBytes(...read), expected)).toBe(0);
        }
      }
    }),
    { numRuns: 40 },
  );
});

/** Returns a capture in the format pcap, with Ethernet frames that contain these TCP segments. */
function pcap(
  segments: readonly { readonly flags: number; readonly sequence: number; readonly text: string }[],
): Uint8Array {
  const header = new Uint8Array(24);
  const view = new DataView(header.buffer);
  view.setUint32(0, 0xa1b2c3d4);
  view.setUint32(20, 1);
  const packets = segments.flatMap(({ flags, sequence, text }) => {
    const content = new TextEncoder().encode(text);
    const packet = new Uint8Array(14 + 20 + 20 + content.length);
    const bytes = new DataView(packet.buffer);
    packet[14] = 0x45;
    bytes.setUint16(16, packet.length - 14);
    packet[23] = 6;
    packet.set([127, 0, 0, 1, 127, 0, 0, 1], 26);
    bytes.setUint16(34, 40_000);
    bytes.setUint16(36, 2_379);
    bytes.setUint32(38, sequence);
    bytes.setUint16(46, (5 << 12) | flags);
    packet.set(content, 54);
    const record = new Uint8Array(16);
    new DataView(record.buffer).setUint32(8, packet.length);
    return [record, packet];
  });
  return concatBytes(header, ...packets);
}

const [FIN, SYN] = [1, 2];

test('CaptureReader puts segments in order across the end of the sequence numbers, and removes repeated bytes', () => {
  const start = 0xffff_fffe;
  const file = pcap([
    { flags: SYN, sequence: start, text: '' },
    { flags: 0, sequence: 3, text: 'ef' },
    { flags: 0, sequence: start + 1, text: 'abcd' },
    { flags: 0, sequence: 1, text: 'cdef' },
    { flags: 0, sequence: 5, text: 'g' },
  ]);
  const { connections } = readCapture(file, 10);
  expect(new TextDecoder().decode(concatBytes(...(connections[0]?.sent ?? [])))).toBe('abcdefg');
});

test('CaptureReader ends a direction with an empty piece after all its bytes', () => {
  const connections = readCapture(
    pcap([
      { flags: SYN, sequence: 0, text: '' },
      { flags: FIN, sequence: 3, text: 'cd' },
      { flags: 0, sequence: 1, text: 'ab' },
    ]),
    1_000,
  ).connections;
  expect(connections[0]?.sent.map((bytes) => new TextDecoder().decode(bytes))).toEqual(['ab', 'cd', '']);
  expect(connections[0]).toMatchObject({ received: [], isClosed: false });
});

test.each([
  ['FIN', true],
  ['no FIN', false],
])('an answer of HTTP/1.0 in a capture has an end if the connection ends with %s', (_, closes) => {
  const parts: Uint8Array[] = [];
  const connection = new PcapngWriter((bytes) => void parts.push(bytes), 'a test').open(CLIENT, SERVER, '', 0);
  connection.bytes('sent', new TextEncoder().encode('GET /health HTTP/1.0\r\n\r\n'), 1);
  connection.bytes('received', new TextEncoder().encode('HTTP/1.0 200 OK\r\n\r\n{"health":"true"}'), 2);
  if (closes) connection.close(3);
  const events: string[] = [];
  const decoder = new ConnectionDecoder((direction) => void events.push(direction));
  const reader = new CaptureReader(() => ({
    bytes: (direction, bytes) => decoder.push(direction, bytes),
    closed: () => void events.push('closed'),
  }));
  reader.push(concatBytes(...parts));
  expect(events).toEqual(closes ? ['sent', 'received', 'closed'] : ['sent']);
});

test.each([
  ['an empty file', new Uint8Array(0)],
  ['a text', new TextEncoder().encode('this is not a capture, but a text')],
  ['half a packet', pcap([{ flags: SYN, sequence: 0, text: 'abc' }]).subarray(0, 60)],
])('CaptureReader refuses %s', (_, file) => {
  expect(() => readCapture(file, 1_000)).toThrow(CaptureError);
});

test('CaptureReader ends for any bytes after a valid beginning', () => {
  const beginning = pcap([{ flags: SYN, sequence: 0, text: 'abc' }]);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        readCapture(concatBytes(beginning, bytes), 64);
      } catch (error) {
        expect(error).toBeInstanceOf(CaptureError);
      }
    }),
  );
});
