import { readUint32 } from '../transport/http2/frame.js';
import { SETTING_BYTES, Setting } from '../transport/http2/settings.js';

const NAMES: ReadonlyMap<number, string> = new Map(Object.entries(Setting).map(([name, number]) => [number, name]));

/** What a payload sets, by name, for people to see; by number where RFC 9113 has no name. */
export function settingsIn(bytes: Uint8Array): readonly (readonly [name: string, value: number])[] {
  const settings: (readonly [string, number])[] = [];
  for (let at = 0; at + SETTING_BYTES <= bytes.length; at += SETTING_BYTES) {
    const setting = ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
    settings.push([NAMES.get(setting) ?? `0x${setting.toString(16)}`, readUint32(bytes, at + 2)]);
  }
  return settings;
}
