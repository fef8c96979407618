import type { WatchEvent } from '../../src/index.js';

/** The value of a put as text; empty for a deletion. */
export function valueText(event: WatchEvent): string {
  return event.type === 'put' ? event.kv.text() : '';
}
