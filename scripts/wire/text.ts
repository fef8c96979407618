import { frameRows } from '../../packages/cli/src/frames.js';
import type { WireFrame } from '../../packages/cli/src/inspect/frames.js';
import { hexOf } from '../../src/base/bytes.js';

/** Maximum number of a frame's bytes on one line. It leaves room on the line for the meaning of the bytes. */
const LINE_BYTES = 16;
const HEX_COLUMNS = LINE_BYTES * 3;

/** Formats a frame for the documentation. Each line contains an offset, the bytes at that offset, and their meaning. */
export function sceneText(frame: WireFrame): string {
  const lines = frameRows(frame).flatMap(({ start, end, depth, text }) => {
    const parts = Array.from({ length: Math.ceil((end - start) / LINE_BYTES) }, (_, index) => {
      const at = start + index * LINE_BYTES;
      return [at, hexOf(frame.bytes.subarray(at, Math.min(at + LINE_BYTES, end)), ' ')] as const;
    });
    return parts.map(([at, hex], index) => {
      const meaning = index === 0 ? '  '.repeat(depth) + text : '';
      return `${String(at).padStart(4)}  ${hex.padEnd(HEX_COLUMNS)} ${meaning}`.trimEnd();
    });
  });
  return lines.join('\n');
}
