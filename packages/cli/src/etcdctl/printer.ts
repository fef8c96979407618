import {
  type Codec,
  encode,
  type HashKVResponse,
  type MemberListResponse,
  RangeResponse,
  ResponseHeader,
  type StatusResponse,
  WatchResponse,
} from '../../../../src/internal.js';
import type { Format, Sink } from '../output-base.js';
import {
  HASH_HEADINGS,
  HEALTH_HEADINGS,
  hashRow,
  MEMBER_HEADINGS,
  memberRow,
  STATUS_HEADINGS,
  statusRow,
} from '../rows.js';
import { badArgs, ETCDCTL_EXIT, EtcdctlError } from './errors.js';
import { FIELDS, hashFields, healthFields, statusFields, watchFields } from './fields.js';
import { goJsonString, goTable } from './go-format.js';
import { GO_STRUCTS, goJson, hexMembersJson, type WatchedEvents, watchJson } from './go-json.js';
import { type Details, type Part, SIMPLE, watchParts } from './simple.js';

export const ETCDCTL_FORMATS = ['fields', 'json', 'protobuf', 'simple', 'table'] as const;
export type EtcdctlFormat = (typeof ETCDCTL_FORMATS)[number];

export interface Health {
  readonly endpoint: string;
  readonly health: boolean;
  readonly took: string;
  readonly error: string;
}

/** The answer of one endpoint. */
export interface EndpointAnswer<T> {
  readonly endpoint: string;
  readonly result: T;
}

/** Prints responses byte for byte as etcdctl does. */
export class EtcdctlPrinter {
  readonly format: EtcdctlFormat;
  readonly #sink: Sink;
  readonly #isHex: boolean;

  constructor(sink: Sink, format: EtcdctlFormat, isHex: boolean) {
    this.#sink = sink;
    this.format = format;
    this.#isHex = isHex;
  }

  /** The format of this program in which it prints what etcdctl does not have. */
  get nearestFormat(): Format {
    return this.format === 'json' || this.format === 'table' ? this.format : 'simple';
  }

  /**
   * Prints a response. `simple` prints it in the format `simple` if this module does not.
   *
   * @throws EtcdctlError if etcdctl does not print such a response in the chosen format.
   */
  response<T>(codec: Codec<T>, response: T, details: Details, simple: () => void): void {
    const { typeName } = codec;
    const isMemberList = typeName === 'etcdserverpb.MemberListResponse';
    switch (this.format) {
      case 'simple': {
        const format = SIMPLE[typeName] as ((response: T, details: Details) => readonly Part[]) | undefined;
        return format === undefined ? simple() : this.#parts(format(response, { ...details, isHex: this.#isHex }));
      }
      case 'json': {
        if (isMemberList && this.#isHex) return this.#text(`${hexMembersJson(response as MemberListResponse)}\n`);
        const struct = GO_STRUCTS[typeName] as ((response: T) => string) | undefined;
        return this.#text(`${struct === undefined ? goJson(typeName, response as object) : struct(response)}\n`);
      }
      case 'fields': {
        const fields = FIELDS[typeName] as ((response: T, isHex: boolean) => readonly string[]) | undefined;
        if (fields === undefined) throw this.#unsupported();
        return this.#lines(fields(response, this.#isHex));
      }
      case 'protobuf': {
        // etcdctl encodes only the header of most responses about leases.
        const { header } = response as { readonly header?: ResponseHeader | undefined };
        if (typeName in GO_STRUCTS) this.#sink.write(encode(ResponseHeader, header ?? {}));
        else this.#sink.write(encode(codec, response as never));
        return;
      }
      case 'table':
        if (!isMemberList) throw this.#unsupported();
        return this.#table(MEMBER_HEADINGS, (response as MemberListResponse).members.map(memberRow));
    }
  }

  /**
   * Prints the keys that `get` has read.
   *
   * @throws EtcdctlError if a flag does not fit the format.
   */
  keys(
    response: RangeResponse,
    {
      countOnly = false,
      valueOnly = false,
    }: { readonly countOnly?: boolean | undefined; readonly valueOnly?: boolean | undefined },
  ): void {
    if (countOnly && this.format !== 'fields') throw badArgs('--count-only is only for `--write-out=fields`');
    if (valueOnly && this.format !== 'simple') throw badArgs('print-value-only is only for `--write-out=simple`');
    this.response(RangeResponse, response, { valueOnly }, () => {});
  }

  /** Prints the events of a watch that arrived together. */
  watch(watched: WatchedEvents): void {
    if (this.format === 'simple') this.#parts(watchParts(watched, { isHex: this.#isHex }));
    else if (this.format === 'json') this.#text(`${watchJson(watched)}\n`);
    else if (this.format === 'fields') this.#lines(watchFields(watched, this.#isHex));
    else if (this.format === 'protobuf') this.#sink.write(encode(WatchResponse, watched as never));
    else throw this.#unsupported();
  }

  status(answers: readonly EndpointAnswer<StatusResponse>[]): void {
    this.#endpoints(answers, STATUS_HEADINGS, ({ endpoint, result }) => statusRow(endpoint, result), {
      json: ({ endpoint, result }) =>
        `{"Endpoint":${goJsonString(endpoint)},"Status":${goJson('etcdserverpb.StatusResponse', result)}}`,
      fields: ({ endpoint, result }) => statusFields(endpoint, result, this.#isHex),
    });
  }

  hashes(answers: readonly EndpointAnswer<HashKVResponse>[]): void {
    this.#endpoints(answers, HASH_HEADINGS, ({ endpoint, result }) => hashRow(endpoint, result), {
      json: ({ endpoint, result }) =>
        `{"Endpoint":${goJsonString(endpoint)},"HashKV":${goJson('etcdserverpb.HashKVResponse', result)}}`,
      fields: ({ endpoint, result }) => hashFields(endpoint, result, this.#isHex),
    });
  }

  /** Prints the health of endpoints. In the format `simple`, unhealthy endpoints go to `stderr`. */
  health(answers: readonly Health[], stderr: Sink): void {
    if (this.format === 'simple') {
      for (const { endpoint, took, error } of answers)
        if (error === '') this.#text(`${endpoint} is healthy: successfully committed proposal: took = ${took}\n`);
        else stderr.write(`${endpoint} is unhealthy: failed to commit proposal: ${error}\n`);
      return;
    }
    this.#endpoints(
      answers,
      HEALTH_HEADINGS,
      ({ endpoint, health, took, error }) => [endpoint, String(health), took, error],
      {
        json: ({ endpoint, health, took, error }) => {
          const rest = error === '' ? '' : `,"error":${goJsonString(error)}`;
          return `{"endpoint":${goJsonString(endpoint)},"health":${health},"took":${goJsonString(took)}${rest}}`;
        },
        fields: ({ endpoint, health, took, error }) => healthFields(endpoint, health, took, error),
      },
    );
  }

  #endpoints<T>(
    answers: readonly T[],
    headings: readonly string[],
    row: (answer: T) => readonly string[],
    formats: { readonly json: (answer: T) => string; readonly fields: (answer: T) => readonly string[] },
  ): void {
    switch (this.format) {
      case 'simple':
        return this.#lines(answers.map((answer) => row(answer).join(', ')));
      case 'json':
        // Go formats a list that was never assigned as null.
        return this.#text(answers.length === 0 ? 'null\n' : `[${answers.map(formats.json).join(',')}]\n`);
      case 'fields':
        return this.#lines(answers.flatMap((answer) => formats.fields(answer)));
      case 'table':
        return this.#table(headings, answers.map(row));
      case 'protobuf':
        throw this.#unsupported();
    }
  }

  #table(headings: readonly string[], rows: readonly (readonly string[])[]): void {
    this.#text(goTable(headings, rows));
  }

  #lines(lines: readonly string[]): void {
    if (lines.length > 0) this.#text(`${lines.join('\n')}\n`);
  }

  #parts(parts: readonly Part[]): void {
    if (parts.length > 0) this.#sink.write(Buffer.concat(parts.map((part) => Buffer.from(part as Uint8Array))));
  }

  #text(text: string): void {
    this.#sink.write(text);
  }

  #unsupported(): EtcdctlError {
    return new EtcdctlError(ETCDCTL_EXIT.BAD_FEATURE, `${this.format} not supported as output format`);
  }
}
