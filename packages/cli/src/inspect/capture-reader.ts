import { concatBytes, textOf } from '../../../../src/internal.js';
import {
  ACK,
  BYTE_ORDER_MAGIC,
  ENHANCED_PACKET,
  FIN,
  INTERFACE_DESCRIPTION,
  LINKTYPE_RAW,
  OPTION_COMMENT,
  RST,
  SECTION_HEADER,
  SYN,
  TCP_PROTOCOL,
  type TcpAddress,
} from './pcapng-writer.js';

/** A TCP connection in a capture. */
export interface CapturedConnection {
  readonly client: TcpAddress;
  readonly server: TcpAddress;
  /** The comment of the first packet. Empty if the packet has no comment. */
  readonly comment: string;
  /** Time of the first packet, in milliseconds since 1970. */
  readonly atMs: number;
}

/** Receives the bytes of a connection, in order and without gaps. */
export interface CapturedBytes {
  /** An empty piece says that the direction has ended. */
  bytes(direction: 'sent' | 'received', bytes: Uint8Array, atMs: number): void;
  closed(atMs: number): void;
}

/** A problem of a file that is not a capture, or that ends too early. */
export class CaptureError extends Error {}

/** The problem of a capture that ends in the middle of a packet. The reader has read the packets before. */
export class CaptureCutError extends CaptureError {}

// https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/ and https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/.
const [PCAP_MICROS, PCAP_NANOS] = [0xa1b2c3d4, 0xa1b23c4d];
const OPTION_TIME_RESOLUTION = 9;
const PCAP_HEADER_BYTES = 24;
const PCAP_PACKET_HEADER_BYTES = 16;
/** Maximum length of a block. A longer one is a sign of a damaged file. */
const MAX_BLOCK_BYTES = 2 ** 24;

/** Number of bytes before the IP header, by link type: https://www.tcpdump.org/linktypes.html. */
const LINK_HEADER_BYTES: Readonly<Record<number, number>> = {
  0: 4, // NULL
  1: 14, // ETHERNET
  [LINKTYPE_RAW]: 0,
  108: 4, // LOOP
  113: 16, // LINUX_SLL
  228: 0, // IPV4
  229: 0, // IPV6
  276: 20, // LINUX_SLL2
};
const [ETHERNET, VLAN_TAG, VLAN_BYTES] = [1, 0x8100, 4];
/** Maximum number of bytes that wait for a missing packet. */
const MAX_WAITING_BYTES = 2 ** 22;

/** Where a packet came from. */
interface Interface {
  readonly linkType: number;
  /** Number of units of the time stamps in a millisecond. */
  readonly unitsPerMs: number;
}

/**
 * Reads the TCP connections of a capture in the format pcapng or pcap, as `etcdwire proxy --record`, Wireshark and
 * tcpdump write them. Leaves out connections of which the capture lacks the beginning or a packet.
 */
export class CaptureReader {
  readonly #onConnection: (connection: CapturedConnection) => CapturedBytes;
  #rest: Uint8Array = new Uint8Array(0);
  #format: 'unknown' | 'pcapng' | 'pcap' = 'unknown';
  #isLittleEndian = true;
  #interfaces: Interface[] = [];
  readonly #connections = new Map<string, Reassembly>();
  /** Number of connections that the reader has left out. */
  leftOut = 0;

  constructor(onConnection: (connection: CapturedConnection) => CapturedBytes) {
    this.#onConnection = onConnection;
  }

  /** Reads the next bytes of the file. @throws CaptureError if the file is not a capture. */
  push(bytes: Uint8Array): void {
    const all = this.#rest.length === 0 ? bytes : concatBytes(this.#rest, bytes);
    let at = 0;
    for (;;) {
      const length = this.#next(all.subarray(at));
      if (length === 0) break;
      at += length;
    }
    this.#rest = all.slice(at);
  }

  /** @throws CaptureError if the file ends in the middle of a packet. */
  end(): void {
    if (this.#format === 'unknown') throw new CaptureError('the file is not a capture; allowed: pcapng or pcap');
    if (this.#rest.length > 0) throw new CaptureCutError('the capture ends in the middle of a packet');
  }

  /** Reads one block or packet, and returns its length. Returns 0 if it is incomplete. */
  #next(bytes: Uint8Array): number {
    if (this.#format === 'unknown') {
      if (bytes.length < PCAP_HEADER_BYTES) return 0;
      const view = viewOf(bytes);
      if (view.getUint32(0) === SECTION_HEADER) this.#format = 'pcapng';
      else return this.#pcapHeader(view);
    }
    return this.#format === 'pcapng' ? this.#block(bytes) : this.#pcapPacket(bytes);
  }

  #pcapHeader(view: DataView): number {
    for (const isLittleEndian of [true, false])
      for (const [magic, unitsPerMs] of [
        [PCAP_MICROS, 1_000],
        [PCAP_NANOS, 1_000_000],
      ] as const)
        if (view.getUint32(0, isLittleEndian) === magic) {
          this.#format = 'pcap';
          this.#isLittleEndian = isLittleEndian;
          this.#interfaces = [{ linkType: view.getUint32(20, isLittleEndian) & 0xffff, unitsPerMs }];
          return PCAP_HEADER_BYTES;
        }
    throw new CaptureError('the file is not a capture; allowed: pcapng or pcap');
  }

  #pcapPacket(bytes: Uint8Array): number {
    if (bytes.length < PCAP_PACKET_HEADER_BYTES) return 0;
    const view = viewOf(bytes);
    const length = view.getUint32(8, this.#isLittleEndian);
    if (length > MAX_BLOCK_BYTES) throw new CaptureError(`the capture has a packet of ${length} bytes`);
    const end = PCAP_PACKET_HEADER_BYTES + length;
    if (bytes.length < end) return 0;
    const [{ linkType, unitsPerMs }] = this.#interfaces as [Interface];
    const atMs = view.getUint32(0, this.#isLittleEndian) * 1_000 + view.getUint32(4, this.#isLittleEndian) / unitsPerMs;
    this.#packet(bytes.subarray(PCAP_PACKET_HEADER_BYTES, end), linkType, atMs, '');
    return end;
  }

  #block(bytes: Uint8Array): number {
    if (bytes.length < 12) return 0;
    const view = viewOf(bytes);
    const type = view.getUint32(0, this.#isLittleEndian);
    if (type === SECTION_HEADER) {
      this.#isLittleEndian = view.getUint32(8, true) === BYTE_ORDER_MAGIC;
      this.#interfaces = [];
    }
    const length = view.getUint32(4, this.#isLittleEndian);
    if (length < 12 || length % 4 !== 0 || length > MAX_BLOCK_BYTES)
      throw new CaptureError(`the capture has a block of ${length} bytes`);
    if (bytes.length < length) return 0;
    const body = viewOf(bytes.subarray(8, length - 4));
    if (type === INTERFACE_DESCRIPTION) this.#interfaces.push(this.#interfaceOf(body));
    if (type === ENHANCED_PACKET && body.byteLength >= 20) this.#enhancedPacket(body);
    return length;
  }

  #interfaceOf(body: DataView): Interface {
    const resolution = this.#options(body, 8).get(OPTION_TIME_RESOLUTION)?.[0] ?? 6;
    const unitsPerSecond = (resolution & 0x80) === 0 ? 10 ** resolution : 2 ** (resolution & 0x7f);
    return { linkType: body.getUint16(0, this.#isLittleEndian), unitsPerMs: unitsPerSecond / 1_000 };
  }

  #enhancedPacket(body: DataView): void {
    const isLittle = this.#isLittleEndian;
    const source = this.#interfaces[body.getUint32(0, isLittle)];
    const length = body.getUint32(12, isLittle);
    if (source === undefined || 20 + length > body.byteLength) return;
    const atMs = (body.getUint32(4, isLittle) * 2 ** 32 + body.getUint32(8, isLittle)) / source.unitsPerMs;
    const comment = this.#options(body, 20 + Math.ceil(length / 4) * 4).get(OPTION_COMMENT);
    const packet = new Uint8Array(body.buffer, body.byteOffset + 20, length);
    this.#packet(packet, source.linkType, atMs, comment === undefined ? '' : textOf(comment));
  }

  #options(body: DataView, start: number): ReadonlyMap<number, Uint8Array> {
    const options = new Map<number, Uint8Array>();
    for (let at = start; at + 4 <= body.byteLength; ) {
      const [code, length] = [body.getUint16(at, this.#isLittleEndian), body.getUint16(at + 2, this.#isLittleEndian)];
      if (code === 0 || at + 4 + length > body.byteLength) break;
      options.set(code, new Uint8Array(body.buffer, body.byteOffset + at + 4, length));
      at += 4 + Math.ceil(length / 4) * 4;
    }
    return options;
  }

  /** Finds the TCP segment in a packet. Ignores packets of other protocols, and fragments. */
  #packet(packet: Uint8Array, linkType: number, atMs: number, comment: string): void {
    let at = LINK_HEADER_BYTES[linkType];
    if (at === undefined) throw new CaptureError(`the capture has the link type ${linkType}, which is not supported`);
    const view = viewOf(packet);
    if (linkType === ETHERNET && packet.length > 16 && view.getUint16(12) === VLAN_TAG) at += VLAN_BYTES;
    const version = (packet[at] ?? 0) >> 4;
    const ip = packet.subarray(at);
    if (version === 4 && ip.length >= 20 && ip[9] === TCP_PROTOCOL) {
      const headerBytes = ((ip[0] as number) & 0x0f) * 4;
      const total = Math.min(viewOf(ip).getUint16(2) || ip.length, ip.length);
      const hostAt = (start: number): string => ip.subarray(start, start + 4).join('.');
      this.#segment(ip.subarray(headerBytes, total), hostAt(12), hostAt(16), atMs, comment);
    } else if (version === 6 && ip.length >= 40 && ip[6] === TCP_PROTOCOL) {
      const ipView = viewOf(ip);
      const hostAt = (start: number): string =>
        Array.from({ length: 8 }, (_, index) => ipView.getUint16(start + 2 * index).toString(16)).join(':');
      const total = Math.min(40 + (ipView.getUint16(4) || ip.length), ip.length);
      this.#segment(ip.subarray(40, total), hostAt(8), hostAt(24), atMs, comment);
    }
  }

  #segment(tcp: Uint8Array, fromHost: string, toHost: string, atMs: number, comment: string): void {
    if (tcp.length < 20) return;
    const view = viewOf(tcp);
    const from = { host: fromHost, port: view.getUint16(0) };
    const to = { host: toHost, port: view.getUint16(2) };
    const flags = tcp[13] as number;
    const sequence = view.getUint32(4);
    const [forward, backward] = [keyOf(from, to), keyOf(to, from)];
    if ((flags & SYN) !== 0 && (flags & ACK) === 0) {
      const sink = this.#onConnection({ client: from, server: to, comment, atMs });
      this.#connections.set(forward, new Reassembly(sink));
    }
    const direction = this.#connections.has(forward) ? 'sent' : 'received';
    const key = direction === 'sent' ? forward : backward;
    const connection = this.#connections.get(key);
    if (connection === undefined) return;
    const content = tcp.slice(((tcp[12] as number) >> 4) * 4);
    if ((flags & SYN) !== 0) connection.start(direction, sequence + 1);
    else if (!connection.add(direction, sequence, content, atMs)) {
      this.leftOut += 1;
      this.#connections.delete(key);
      return;
    }
    if ((flags & RST) !== 0 || ((flags & FIN) !== 0 && connection.fin(direction, sequence + content.length, atMs))) {
      this.#connections.delete(key);
      connection.close(atMs);
    }
  }
}

function keyOf(from: TcpAddress, to: TcpAddress): string {
  return `${from.host}:${from.port}>${to.host}:${to.port}`;
}

interface Flow {
  /** The sequence number of the next byte; undefined before the first packet. */
  next: number | undefined;
  /** Segments after a gap, by sequence number. */
  readonly waiting: Map<number, Uint8Array>;
  waitingBytes: number;
  /** The sequence number of FIN; undefined before FIN. */
  end: number | undefined;
  hasEnded: boolean;
}

/** Puts the segments of a connection in order, and removes repeated bytes. */
class Reassembly {
  readonly #sink: CapturedBytes;
  readonly #flows: Readonly<Record<'sent' | 'received', Flow>> = { sent: emptyFlow(), received: emptyFlow() };

  constructor(sink: CapturedBytes) {
    this.#sink = sink;
  }

  start(direction: 'sent' | 'received', sequence: number): void {
    this.#flows[direction].next ??= sequence >>> 0;
  }

  /** Notes the end of a direction. Returns whether both directions have one. */
  fin(direction: 'sent' | 'received', end: number, atMs: number): boolean {
    this.#flows[direction].end = end >>> 0;
    if (this.#flows[direction].next === end >>> 0) this.#end(direction, atMs);
    return this.#flows.sent.end !== undefined && this.#flows.received.end !== undefined;
  }

  close(atMs: number): void {
    this.#end('sent', atMs);
    this.#end('received', atMs);
    this.#sink.closed(atMs);
  }

  #end(direction: 'sent' | 'received', atMs: number): void {
    if (!this.#flows[direction].hasEnded) this.#sink.bytes(direction, new Uint8Array(0), atMs);
    this.#flows[direction].hasEnded = true;
  }

  /** Returns false if a packet is missing. */
  add(direction: 'sent' | 'received', sequence: number, content: Uint8Array, atMs: number): boolean {
    const flow = this.#flows[direction];
    flow.next ??= sequence;
    if (content.length === 0) return true;
    flow.waiting.set(sequence, content);
    flow.waitingBytes += content.length;
    for (let found = true; found; ) {
      found = false;
      for (const [start, bytes] of flow.waiting) {
        const skip = (flow.next - start) | 0;
        if (skip < 0) continue;
        found = true;
        flow.waiting.delete(start);
        flow.waitingBytes -= bytes.length;
        if (skip >= bytes.length) continue;
        flow.next = (start + bytes.length) >>> 0;
        this.#sink.bytes(direction, bytes.subarray(skip), atMs);
      }
    }
    if (flow.next === flow.end) this.#end(direction, atMs);
    return flow.waitingBytes <= MAX_WAITING_BYTES;
  }
}

function emptyFlow(): Flow {
  return { next: undefined, waiting: new Map(), waitingBytes: 0, end: undefined, hasEnded: false };
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
