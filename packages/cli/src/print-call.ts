import { type CallOptions, type Init, type Method, type Raw, stubOf } from '../../../src/internal.js';
import { type Context, withClient } from './context.js';
import type { ResponseOptions } from './output.js';

/**
 * Calls a method, and prints its response: see `Output.response`. `print` prints it if the output is not JSON.
 *
 * @param request The request, or a function that makes all calls of the command and resolves with the response.
 */
export async function printCall<Request, Response>(
  context: Context,
  method: Method<Request, Response, 'unary'>,
  request: Init<Request> | ((raw: Raw, call: CallOptions) => Promise<Response>),
  print: (response: Response) => void,
  options?: ResponseOptions,
): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, ({ raw }) => {
    if (typeof request === 'function') return request(raw, call);
    return (stubOf(raw, method) as (request: Init<Request>, options: CallOptions) => Promise<Response>)(request, call);
  });
  out.response(method.response, response, () => print(response), options);
}
