import { NO_QUEUE, sentenceFor } from '../../packages/cli/src/trace/sentences.js';
import { textOf } from '../../src/base/index.js';
import { type JsonObject, toJson } from '../../src/extras/transports/json/json.js';
import type { Codec } from '../../src/wire/index.js';
import type { Event } from '../../test/interleavings/world.js';

/** The columns of the names of events. */
const NAME_COLUMNS = 44;

/** Returns a line for an event: its time, its name, and what its message says. */
export function eventText({ label, carries }: Event, elapsedMs: number): string {
  const time = `${elapsedMs} ms`;
  const name = `${time.padStart(8)}  ${label}`;
  if (carries === undefined) return name;
  const { method, request, answer } = carries;
  const codec = answer === undefined ? method.request : method.response;
  const sentence = sentenceFor(
    { method: method.path, typeName: codec.typeName },
    jsonOf(codec, answer ?? request),
    NO_QUEUE,
    jsonOf(method.request, request),
  );
  return `${name.padEnd(NAME_COLUMNS)}  ${sentence}`;
}

function jsonOf(codec: Pick<Codec<unknown>, 'typeName'>, message: unknown): JsonObject {
  return toJson(codec as Codec<unknown>, message, textOf);
}
