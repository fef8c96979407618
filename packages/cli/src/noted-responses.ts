import type { StreamHandler } from '../../../src/internal.js';

/** Returns a handler that calls `note` with each response of a stream before it passes the response on. */
export function notingResponses<Response>(
  handler: StreamHandler<Response>,
  note: (response: Response) => void,
): StreamHandler<Response> {
  return {
    message: (response) => {
      note(response);
      handler.message(response);
    },
    end: (error) => handler.end(error),
    leaving: () => handler.leaving?.(),
  };
}
