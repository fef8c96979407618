import { NO_BYTES } from '../../../../src/internal.js';

/** The address of one end of a TCP connection. */
export interface TcpAddress {
  /** An IPv4 or IPv6 address. */
  readonly host: string;
  readonly port: number;
}

// Block types and option codes of pcapng: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/.
export const [SECTION_HEADER, INTERFACE_DESCRIPTION, ENHANCED_PACKET] = [0x0a0d0d0a, 1, 6] as const;
export const BYTE_ORDER_MAGIC = 0x1a2b3c4d;
export const OPTION_COMMENT = 1;
const [MAJOR_VERSION, OPTION_PROGRAM] = [1, 4];
/** The packets begin with an IP header: LINKTYPE_RAW in https://www.tcpdump.org/linktypes.html. */
export const LINKTYPE_RAW = 101;

/** The flags of TCP: RFC 9293, section 3.1. */
export const [FIN, SYN, RST, ACK] = [0x01, 0x02, 0x04, 0x10] as const;
const PUSH = 0x08;
export const TCP_PROTOCOL = 6;
const TCP_HEADER_BYTES = 20;
const IPV4_HEADER_BYTES = 20;
const IPV6_HEADER_BYTES = 40;
/** Maximum number of bytes in a packet after the TCP header. The length field of IP has 16 bits. */
const MAX_SEGMENT_BYTES = 32_768;
const MAX_WINDOW = 0xffff;

/**
 * Writes TCP connections as a file in the format pcapng, which Wireshark and `etcdwire show` read. The file contains
 * packets that the writer makes up: it gets the bytes of a connection, without TLS, and not the packets of a network.
 */
export class PcapngWriter {
  readonly #write: (bytes: Uint8Array) => void;

  /** Calls `write` with the bytes of the file, in order. `program` is the name of the program that wrote the file. */
  constructor(write: (bytes: Uint8Array) => void, program: string) {
    this.#write = write;
    const section = new Uint8Array(16);
    const view = new DataView(section.buffer);
    view.setUint32(0, BYTE_ORDER_MAGIC, true);
    view.setUint16(4, MAJOR_VERSION, true);
    // The length of the section is unknown.
    view.setBigInt64(8, -1n, true);
    write(block(SECTION_HEADER, [section, option(OPTION_PROGRAM, program), END_OF_OPTIONS]));
    const description = new Uint8Array(8);
    new DataView(description.buffer).setUint16(0, LINKTYPE_RAW, true);
    write(block(INTERFACE_DESCRIPTION, [description]));
  }

  /** Begins a connection. `comment` describes the client; it becomes the comment of the first packet. */
  open(client: TcpAddress, server: TcpAddress, comment: string, atMs: number): WrittenConnection {
    const write: WritePacket = (packet, time, text) => this.#packet(packet, time, text);
    return new WrittenConnection(write, client, server, comment, atMs);
  }

  /** `atMs` is the time in milliseconds since 1970. */
  #packet(packet: Uint8Array, atMs: number, comment: string): void {
    const header = new Uint8Array(20);
    const view = new DataView(header.buffer);
    const micros = BigInt(Math.round(atMs * 1_000));
    view.setUint32(4, Number(micros >> 32n), true);
    view.setUint32(8, Number(micros & 0xffffffffn), true);
    view.setUint32(12, packet.length, true);
    view.setUint32(16, packet.length, true);
    const options = comment === '' ? [] : [option(OPTION_COMMENT, comment), END_OF_OPTIONS];
    this.#write(block(ENHANCED_PACKET, [header, padded(packet), ...options]));
  }
}

type WritePacket = (packet: Uint8Array, atMs: number, comment: string) => void;

/** A connection in a file that a `PcapngWriter` writes. All times are milliseconds since 1970. */
export class WrittenConnection {
  readonly #packet: WritePacket;
  readonly #client: Side;
  readonly #server: Side;

  constructor(packet: WritePacket, client: TcpAddress, server: TcpAddress, comment: string, atMs: number) {
    this.#packet = packet;
    const bothIpv4 = [client, server].every(({ host }) => ipv4Of(host) !== undefined);
    this.#client = { address: addressBytes(client.host, bothIpv4), port: client.port, next: 0 };
    this.#server = { address: addressBytes(server.host, bothIpv4), port: server.port, next: 0 };
    this.#segment(this.#client, this.#server, SYN, NO_BYTES, atMs, comment);
    this.#segment(this.#server, this.#client, SYN | ACK, NO_BYTES, atMs);
    this.#segment(this.#client, this.#server, ACK, NO_BYTES, atMs);
  }

  /** Writes bytes that one side has sent. */
  bytes(direction: 'sent' | 'received', bytes: Uint8Array, atMs: number): void {
    const [from, to] = direction === 'sent' ? [this.#client, this.#server] : [this.#server, this.#client];
    for (let at = 0; at < bytes.length; at += MAX_SEGMENT_BYTES)
      this.#segment(from, to, PUSH | ACK, bytes.subarray(at, at + MAX_SEGMENT_BYTES), atMs);
  }

  close(atMs: number): void {
    this.#segment(this.#client, this.#server, FIN | ACK, NO_BYTES, atMs);
    this.#segment(this.#server, this.#client, FIN | ACK, NO_BYTES, atMs);
  }

  #segment(from: Side, to: Side, flags: number, content: Uint8Array, atMs: number, comment = ''): void {
    const isIpv4 = from.address.length === 4;
    const ipBytes = isIpv4 ? IPV4_HEADER_BYTES : IPV6_HEADER_BYTES;
    const packet = new Uint8Array(ipBytes + TCP_HEADER_BYTES + content.length);
    const view = new DataView(packet.buffer);
    if (isIpv4) {
      view.setUint16(0, 0x4500);
      view.setUint16(2, packet.length);
      view.setUint16(8, (64 << 8) | TCP_PROTOCOL);
      packet.set(from.address, 12);
      packet.set(to.address, 16);
      view.setUint16(10, checksum(view, IPV4_HEADER_BYTES));
    } else {
      view.setUint16(0, 0x6000);
      view.setUint16(4, packet.length - IPV6_HEADER_BYTES);
      view.setUint16(6, (TCP_PROTOCOL << 8) | 64);
      packet.set(from.address, 8);
      packet.set(to.address, 24);
    }
    view.setUint16(ipBytes, from.port);
    view.setUint16(ipBytes + 2, to.port);
    view.setUint32(ipBytes + 4, from.next);
    view.setUint32(ipBytes + 8, (flags & ACK) === 0 ? 0 : to.next);
    view.setUint16(ipBytes + 12, ((TCP_HEADER_BYTES / 4) << 12) | flags);
    view.setUint16(ipBytes + 14, MAX_WINDOW);
    packet.set(content, ipBytes + TCP_HEADER_BYTES);
    // SYN and FIN take a sequence number each: RFC 9293, section 3.4.
    from.next = (from.next + content.length + ((flags & (SYN | FIN)) === 0 ? 0 : 1)) >>> 0;
    this.#packet(packet, atMs, comment);
  }
}

/** One end of a connection. */
interface Side {
  readonly address: Uint8Array;
  readonly port: number;
  /** The sequence number of the next byte. */
  next: number;
}

const END_OF_OPTIONS = new Uint8Array(4);

/** Returns a block: its type, its length, the parts, and its length again. Each part is a multiple of 4 bytes long. */
function block(type: number, parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 12);
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, type, true);
  view.setUint32(4, length, true);
  let at = 8;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  view.setUint32(at, length, true);
  return bytes;
}

function option(code: number, text: string): Uint8Array {
  const content = new TextEncoder().encode(text).subarray(0, 0xffff);
  const bytes = new Uint8Array(4 + Math.ceil(content.length / 4) * 4);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, code, true);
  view.setUint16(2, content.length, true);
  bytes.set(content, 4);
  return bytes;
}

function padded(bytes: Uint8Array): Uint8Array {
  if (bytes.length % 4 === 0) return bytes;
  const whole = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  whole.set(bytes);
  return whole;
}

/** The checksum of an IPv4 header: RFC 1071. */
function checksum(view: DataView, length: number): number {
  let sum = 0;
  for (let at = 0; at < length; at += 2) sum += view.getUint16(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** Returns the four numbers of an IPv4 address, also of one that is mapped to IPv6. */
function ipv4Of(host: string): readonly number[] | undefined {
  const found = /^(?:::ffff:)?(\d+)\.(\d+)\.(\d+)\.(\d+)$/i.exec(host);
  return found?.slice(1).map(Number);
}

/** Returns 4 bytes if `asIpv4` is true, and 16 bytes otherwise. */
function addressBytes(host: string, asIpv4: boolean): Uint8Array {
  const ipv4 = ipv4Of(host);
  if (ipv4 !== undefined)
    return Uint8Array.from(asIpv4 ? ipv4 : [...new Array<number>(10).fill(0), 0xff, 0xff, ...ipv4]);
  const [withoutZone = ''] = host.split('%');
  const [head = '', tail] = withoutZone.split('::');
  const groups = (text: string): number[] =>
    text === ''
      ? []
      : text.split(':').flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]);
  const [first, last] = [groups(head), tail === undefined ? [] : groups(tail)];
  return Uint8Array.from([
    ...first,
    ...new Array<number>(Math.max(0, 16 - first.length - last.length)).fill(0),
    ...last,
  ]);
}
