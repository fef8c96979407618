import type { Client, Interceptor } from '../../../src/internal.js';
import { CliError, ExitCode, withFlagNames } from './exit-code.js';
import { notingResponses } from './noted-responses.js';

/** Matches the problem of a connection that a server has closed because of the client certificate. */
const REFUSED = /requires a client certificate/;

/**
 * Ends a command at once if all servers refuse its client certificate. The client itself tries again, because the
 * certificate of a long-running program may be replaced. A command that has had an answer continues, too.
 */
export class CertificateRefusal {
  #isAnswered = false;
  /** Notes that a server has answered. */
  readonly interceptor: Interceptor = {
    unary: async (call, next) => {
      const response = await next(call);
      this.#isAnswered = true;
      return response;
    },
    stream: (call, handler, next) => {
      const noting = notingResponses(handler, () => {
        this.#isAnswered = true;
      });
      return next(call, noting);
    },
  };

  /** Resolves with the result of `work`. @throws CliError as soon as all servers have refused the certificate. */
  async orRefused<T>(client: Client, work: Promise<T>): Promise<T> {
    const refusing = new Set<string>();
    let off = (): void => {};
    const refused = new Promise<never>((_, reject) => {
      off = client.onEvent((event) => {
        if (event.type !== 'endpoint unavailable' || !REFUSED.test(event.problem)) return;
        refusing.add(event.endpoint);
        if (this.#isAnswered || client.endpoints.some((endpoint) => !refusing.has(endpoint))) return;
        reject(new CliError(ExitCode.NO_PERMISSION, withFlagNames(event.problem)));
      });
    });
    return Promise.race([work, refused]).finally(off);
  }
}
