import type { WireMessage } from '../../inspect/frame.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protobuf/json.js';
import { shortType } from '../method-name.js';

/** Whom a key stands for: this client, another contender, or undefined for a key that is just a key. */
export type NameOf = (key: string) => string | undefined;

/** What this client is called. */
export const ME = 'me';

/** What a message asks or tells, in words for who sees such a thing for the first time. `asked`: what it answers. */
export function gloss(
  message: Pick<WireMessage, 'typeName' | 'method'>,
  fields: JsonObject,
  nameOf: NameOf,
  asked: JsonObject = {},
): string {
  const type = shortType(message);
  return (
    new Gloss(nameOf).of(type, fields, asked) ?? `${message.method.slice(message.method.lastIndexOf('/') + 1)}: ${type}`
  );
}

class Gloss {
  readonly #nameOf: NameOf;

  constructor(nameOf: NameOf) {
    this.#nameOf = nameOf;
  }

  of(type: string, fields: JsonObject, asked: JsonObject): string | undefined {
    switch (type) {
      case 'LeaseGrantRequest':
        return `a lease of ${text(fields.TTL)} s, please`;
      case 'LeaseGrantResponse':
        return `lease ${hex(fields.ID)} is yours`;
      case 'LeaseRevokeRequest':
        return `end lease ${hex(fields.ID)}, and its keys`;
      case 'LeaseRevokeResponse':
        return 'ended';
      case 'LeaseKeepAliveRequest':
        return `I am alive: keep lease ${hex(fields.ID)}`;
      case 'LeaseKeepAliveResponse':
        return fields.TTL === undefined ? 'that lease is gone' : `good for ${text(fields.TTL)} s more`;
      case 'RangeRequest':
        return this.#range(fields);
      case 'RangeResponse':
        return this.#keys(fields.kvs);
      case 'PutRequest':
        return `put ${this.#key(fields)} = ${text(fields.value)}`;
      case 'PutResponse':
        return 'done';
      case 'DeleteRangeRequest':
        return `delete ${this.#key(fields)}`;
      case 'DeleteRangeResponse':
        return `${text(fields.deleted) || 0} deleted`;
      case 'TxnRequest':
        return this.#txn(fields);
      case 'TxnResponse':
        return this.#txnAnswer(fields, asked);
      case 'WatchRequest':
        return this.#watch(fields);
      case 'WatchResponse':
        return this.#watchAnswer(fields);
      default:
        return undefined;
    }
  }

  #txn({ compare, success }: JsonObject): string {
    const [first] = list(compare);
    const what = list(success).map((op) => this.#op(op));
    const then = what.join(' and ').replaceAll('? and ', '? ');
    return first === undefined ? then : `${this.#condition(first)}: ${then}`;
  }

  #condition(condition: JsonObject): string {
    const { target, result, create_revision } = condition;
    const key = this.#key(condition);
    const relation = { GREATER: '>', LESS: '<', NOT_EQUAL: '≠' }[text(result)] ?? '=';
    if (target !== 'CREATE') return `if ${key} is as expected`;
    if (relation === '=' && (create_revision ?? '0') === '0')
      return key === ME ? 'if I am not in line' : `if there is no ${key}`;
    if (key === ME && relation === '=') return 'if I am still in line';
    return `if ${key} was created ${relation} ${text(create_revision)}`;
  }

  #op({ request_put, request_range, request_delete_range, request_txn }: JsonObject): string {
    if (isJsonObject(request_put))
      return this.#key(request_put) === ME ? 'put me in line' : `put ${this.#key(request_put)}`;
    if (isJsonObject(request_delete_range)) {
      return this.#key(request_delete_range) === ME
        ? 'take me out of the line'
        : `delete ${this.#key(request_delete_range)}`;
    }
    if (isJsonObject(request_txn)) return this.#txn(request_txn);
    return isJsonObject(request_range) ? this.#range(request_range) : 'nothing';
  }

  #range(range: JsonObject): string {
    const { range_end, sort_target, sort_order } = range;
    if (range_end === undefined) return this.#key(range) === ME ? 'am I in line?' : `is ${this.#key(range)} there?`;
    if (sort_target !== 'CREATE') return `all from ${this.#key(range)} on?`;
    return sort_order === 'DESCEND' ? 'who is ahead?' : 'who is first?';
  }

  #txnAnswer({ succeeded, responses }: JsonObject, { success, failure }: JsonObject): string {
    const ops = list(succeeded ? success : failure);
    const answers = list(responses).flatMap(({ response_range }, index) => {
      const { request_range } = ops[index] ?? {};
      if (!isJsonObject(response_range) || !isJsonObject(request_range)) return [];
      const keys = this.#keys(response_range.kvs);
      if (request_range.range_end === undefined) return keys === 'you' ? ['you are in line'] : [keys];
      return [`${keys} ${request_range.sort_order === 'DESCEND' ? 'is ahead' : 'is first'}`];
    });
    return [succeeded ? 'done' : 'it is not so', answers.join(', ')].filter((part) => part !== '').join(': ');
  }

  #watch({ create_request, cancel_request }: JsonObject): string {
    if (isJsonObject(cancel_request)) return 'no need to tell me any more';
    if (!isJsonObject(create_request)) return 'how far is it?';
    const key = this.#key(create_request);
    if (key === ME) return 'tell me if I fall out of the line';
    return this.#isContender(create_request) ? `tell me when ${key} leaves` : `tell me when ${key} changes`;
  }

  #watchAnswer({ created, canceled, events }: JsonObject): string {
    if (canceled) return 'all right';
    if (created) return 'I will';
    const told = list(events).map(({ type, kv }) => {
      if (!isJsonObject(kv)) return '';
      if (type !== 'DELETE') return `${this.#key(kv)} was put`;
      return this.#isContender(kv) ? `${this.#key(kv)} has left` : `${this.#key(kv)} is gone`;
    });
    return told.join(', ') || 'nothing new';
  }

  #keys(kvs: JsonValue | undefined): string {
    const keys = list(kvs);
    if (keys.length === 0) return 'nobody';
    return keys.length > 3
      ? `${keys.length} keys`
      : keys.map((kv) => (this.#key(kv) === ME ? 'you' : this.#key(kv))).join(', ');
  }

  #key({ key }: JsonObject): string {
    return this.#nameOf(text(key)) ?? text(key);
  }

  #isContender({ key }: JsonObject): boolean {
    return this.#nameOf(text(key)) !== undefined;
  }
}

function list(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value : [];
}

function text(value: JsonValue | undefined): string {
  return value === undefined ? '' : String(value);
}

function hex(id: JsonValue | undefined): string {
  return BigInt(text(id) || 0).toString(16);
}
