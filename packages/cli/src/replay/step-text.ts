import { type JsonObject, methodByShortPath, objectIn, type RecordedStep } from '../../../../src/internal.js';
import { NO_QUEUE, sentenceFor } from '../trace/sentences.js';

/** Describes the steps of a recording in short lines of text, in their order. */
export class StepDescriber {
  /** The RPCs of the streams by their numbers. */
  readonly #streams = new Map<number, string>();

  describe(step: RecordedStep): string {
    const time = `${step.ms.toFixed(1).padStart(9)} ms`;
    return `${time}  ${this.sentence(step)}`;
  }

  /** Describes a step without its time. */
  sentence(step: RecordedStep): string {
    if ('call' in step)
      return `> ${messageSentence('request', step.call, step.request)}  · ${step.call}${as(step.user)}`;
    if ('open' in step) {
      this.#streams.set(step.stream, step.open);
      return `> open stream ${step.stream}  · ${step.open}${as(step.user)}`;
    }
    if ('stream' in step) {
      const rpc = this.#streams.get(step.stream) ?? '';
      const { send, receive, end, ended, stream } = step;
      const place = `  · ${rpc} · stream ${stream}`;
      if (send !== undefined) return `> ${messageSentence('request', rpc, send)}${place}`;
      if (receive !== undefined) return `< ${messageSentence('response', rpc, receive)}${place}`;
      if (end !== undefined) return `> ${end === 'cancel' ? 'cancel' : 'send nothing more'}${place}`;
      return `< ${ended === 'OK' ? 'the end' : `refused: ${ended}`}${place}`;
    }
    if (step.expire !== undefined) return `* lease ${step.expire} expires`;
    if (step.write !== undefined) return `* another client: ${step.write.map(eventSentence).join(', ')}`;
    if (step.compact !== undefined) return `* another client compacts the history to revision ${step.compact}`;
    return `* other clients make ${step.skip} ${step.skip === 1 ? 'revision' : 'revisions'}`;
  }
}

function as(user: string | undefined): string {
  return user === undefined ? '' : ` · user ${user}`;
}

function messageSentence(what: 'request' | 'response', rpc: string, fields: JsonObject): string {
  const method = methodByShortPath.get(rpc);
  if (method === undefined) return rpc;
  return sentenceFor({ method: method.path, typeName: method[what].typeName }, fields, NO_QUEUE);
}

function eventSentence({ type, kv }: JsonObject): string {
  const { key = '', value = '' } = objectIn(kv);
  return type === 'DELETE' ? `delete ${key}` : `put ${key} = ${value}`;
}
