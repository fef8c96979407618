import { bytesInUse } from '../../test/support/bytes-in-use.js';

/** What a process has between two episodes. */
export interface ProcessSample {
  /** After all garbage is gone, what lies outside of the heap included. */
  readonly heapMiB: number;
  readonly handles: number;
}

/** What is closed is gone a moment later. */
const SETTLE_MS = 200;
const MEBIBYTE = 1024 * 1024;

export async function takeSample(): Promise<ProcessSample> {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  return { heapMiB: bytesInUse() / MEBIBYTE, handles: openHandles().length };
}

/** Kinds of the sockets, timers and the like that keep the process alive. */
export function openHandles(): readonly string[] {
  // Pipes and terminals are those of the process itself.
  return process.getActiveResourcesInfo().filter((kind) => kind !== 'PipeWrap' && kind !== 'TTYWrap');
}
