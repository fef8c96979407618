import { Printable } from '../base/index.js';
import * as wire from '../gen/etcdserverpb/rpc.js';

/**
 * The result of a call, with the header of the response. `header.revision` is the revision of the store.
 * `JSON.stringify` writes bigints as decimal strings, and bytes as text or `{ base64 }`.
 */
export type WithHeader<Result> = Result & { readonly header: wire.ResponseHeader };

/** A result of a call. */
export class Result extends Printable {
  /** @internal The class name that `console.log` shows. It is set here, because a bundler may rename the class. */
  static override readonly name = 'Result';
  readonly header: wire.ResponseHeader;

  constructor(header: wire.ResponseHeader | undefined, fields: object) {
    super();
    this.header = header ?? wire.ResponseHeader.create();
    Object.assign(this, fields);
  }
}

export function withHeader<Fields extends object>(
  header: wire.ResponseHeader | undefined,
  fields: Fields,
): WithHeader<Fields> {
  return new Result(header, fields) as Result & Fields;
}

/** Waits for a response, and returns a result with the same fields. Replaces a missing header with an empty one. */
export async function withHeaderOf<Response extends { readonly header: wire.ResponseHeader | undefined }>(
  response: Promise<Response>,
): Promise<WithHeader<Response>> {
  const { header, ...rest } = await response;
  return withHeader(header, rest) as WithHeader<Response>;
}
