import { createReadStream } from 'node:fs';
import { CliError, ExitCode, wrongArguments } from '../exit-code.js';
import { beginsTls, CaptureCutError, CaptureError, CaptureReader, ConnectionDecoder } from '../inspect/index.js';
import { addressText, type Traffic } from './traffic.js';

/** What to do about a capture with TLS. */
export const RECORD_WITH_PROXY = 'etcdwire proxy --record records such connections without TLS';

/** What a capture lacks. */
export interface CaptureGaps {
  /** Number of connections of which the beginning or a packet is missing. */
  readonly leftOut: number;
  /** Number of connections with TLS. */
  readonly encrypted: number;
  /** Whether the file ends in the middle of a packet. */
  readonly isCut: boolean;
}

/**
 * Reads a capture, and passes its content to `traffic`, in the order of the packets.
 *
 * @throws CliError if the file cannot be read, or is not a capture, or, unless `mayBeCut` is set, ends in the middle of
 *   a packet.
 */
export async function readCapture(file: string, traffic: Traffic, mayBeCut = false): Promise<CaptureGaps> {
  let connections = 0;
  let encrypted = 0;
  const reader = new CaptureReader((captured) => {
    connections += 1;
    const connection = connections;
    const { client, server, comment } = captured;
    let { atMs } = captured;
    const endpoint = / to (\S+?)(?:,|$)/.exec(comment)?.[1] ?? `http://${addressText(server)}`;
    const [, certificateName] = /, client certificate (.*)$/s.exec(comment) ?? [];
    traffic.opened?.({ connection, client, server, endpoint, certificateName, atMs });
    let isFirst = true;
    const decoder = new ConnectionDecoder((direction, frame) =>
      traffic.frame({ atMs, connection, endpoint, direction, ...frame }),
    );
    return {
      bytes: (direction, bytes, time) => {
        if (isFirst && beginsTls(bytes)) encrypted += 1;
        isFirst = false;
        atMs = time;
        decoder.push(direction, bytes);
      },
      closed: (time) => traffic.closed?.(connection, time),
    };
  });
  let isCut = false;
  try {
    for await (const bytes of createReadStream(file)) reader.push(bytes as Uint8Array);
    reader.end();
  } catch (error) {
    isCut = mayBeCut && error instanceof CaptureCutError;
    if (!isCut && error instanceof CaptureError) throw new CliError(ExitCode.DATA, `${file}: ${error.message}`);
    if (!isCut) throw wrongArguments(`cannot read ${file}: ${(error as Error).message}`);
  }
  return { leftOut: reader.leftOut, encrypted, isCut };
}

/** Says which connections of a capture were left out. */
export function leftOutOf({ leftOut, encrypted }: CaptureGaps): readonly string[] {
  return [
    ...(leftOut > 0 ? [`connections left out because packets are missing: ${leftOut}`] : []),
    ...(encrypted > 0 ? [`connections left out because they use TLS: ${encrypted}; ${RECORD_WITH_PROXY}`] : []),
  ];
}
