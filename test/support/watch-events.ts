import type { WatchEvent } from '../../src/index.js';

/** Returns the value of a put as text, or an empty string for a deletion. */
export function valueText(event: WatchEvent): string {
  return event.type === 'put' ? event.kv.text() : '';
}
