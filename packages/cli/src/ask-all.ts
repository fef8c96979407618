import { type Client, monotonicMs } from '../../../src/internal.js';
import { type Context, withClient } from './context.js';
import { type CliError, describeFailure } from './exit-code.js';

/** The answer of an endpoint, or the failure of the call. */
export type Answer<T> = { readonly endpoint: string; readonly tookMs: number } & (
  | { readonly result: T; readonly failure?: undefined; readonly error?: undefined }
  | { readonly result?: undefined; readonly failure: CliError; readonly error: unknown }
);

/**
 * Asks all endpoints or, if `cluster` is true, all members. If an endpoint fails, its answer contains the failure. In
 * the mode of etcdctl, an answer has the text of the endpoint that the user gave, instead of its URL.
 */
export function askAll<T>(
  context: Context,
  cluster: boolean,
  ask: (client: Client, options: Context['call'] & { readonly endpoint: string }) => Promise<T>,
  order: 'at once' | 'in turn' = 'at once',
): Promise<Answer<T>[]> {
  const { out, nameOf } = context;
  return withClient(context, async (client) => {
    if (cluster) await client.sync(context.call);
    const answer = async (endpoint: string): Promise<Answer<T>> => {
      const name = out.etcdctl === undefined || cluster ? endpoint : nameOf(endpoint);
      const startMs = monotonicMs();
      const tookMs = (): number => monotonicMs() - startMs;
      try {
        return { endpoint: name, result: await ask(client, { ...context.call, endpoint }), tookMs: tookMs() };
      } catch (error) {
        return { endpoint: name, failure: describeFailure(error), error, tookMs: tookMs() };
      }
    };
    if (order === 'at once') return Promise.all(client.endpoints.map(answer));
    const answers: Answer<T>[] = [];
    for (const endpoint of client.endpoints) answers.push(await answer(endpoint));
    return answers;
  });
}
