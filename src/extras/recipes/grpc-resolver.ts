import { experimental, type StatusObject, status } from '@grpc/grpc-js';
import { after, backoffMs, checkName, EtcdError, invalidInput, messageOf, pause } from '../../base/index.js';
import { type CoreKeyspace, checkClient } from '../../client/index.js';
import { Service } from './service.js';

type ResolverListener = experimental.ResolverListener;
type Target = { readonly path: string };

/** After this time in milliseconds without an answer of etcd, the calls of a new channel fail instead of waiting. */
const FIRST_ANSWER_MS = 3_000;

const { registerResolver, statusOrFromError, statusOrFromValue } = experimental;

/**
 * Lets every channel of `@grpc/grpc-js` in this process find the instances of a `Service` in etcd: the target
 * `etcd:///services/web` stands for the instances of the service `services/web`. The channel follows the registrations
 * of the instances, and spreads its calls over the instances with the load balancing policy of its service config. An
 * instance whose address is not `host:port` is left out. While the service has no instance, or etcd does not answer a
 * new channel within 3 s, calls fail with UNAVAILABLE, unless they wait for ready channels. The resolver works until
 * the client is closed. It needs version 1.14 or newer of `@grpc/grpc-js`, because it uses the experimental API of that
 * version.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid, or if `@grpc/grpc-js` is too old.
 *
 * @example
 * import { credentials, Client as GrpcClient } from '@grpc/grpc-js';
 *
 * registerGrpcResolver(etcd);
 * const web = new GrpcClient('etcd:///services/web', credentials.createInsecure(), {
 *   'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
 * });
 * web.close();
 */
export function registerGrpcResolver(client: CoreKeyspace, scheme = 'etcd'): void {
  checkClient(client);
  checkName(scheme, 'scheme');
  if (statusOrFromValue === undefined)
    throw invalidInput('@grpc/grpc-js', 'a version that is too old for resolvers', 'version 1.14 or newer');

  class EtcdResolver {
    readonly #target: string;
    readonly #listener: ResolverListener;
    #stop: AbortController | undefined;
    #hadAddress = false;

    constructor(target: Target, listener: ResolverListener) {
      this.#target = target.path;
      this.#listener = listener;
    }

    /** Starts to follow the service. grpc-js also calls this method when a connection fails. */
    updateResolution(): void {
      if (this.#stop !== undefined) return;
      this.#stop = new AbortController();
      void this.#follow(this.#stop.signal);
    }

    destroy(): void {
      this.#stop?.abort();
      this.#stop = undefined;
    }

    /** Returns the last part of the service's name, because an authority must not contain slashes. */
    static getDefaultAuthority(target: Target): string {
      return encodeURIComponent(target.path.split('/').at(-1) ?? '');
    }

    async #follow(signal: AbortSignal): Promise<void> {
      for (let failures = 0; !signal.aborted; failures += 1) {
        const report = (error: unknown): void => {
          this.#listener(statusOrFromError(statusOf(error)), {}, null, '');
        };
        // Until the listener is called, the calls of the channel wait without an answer.
        const stopTimer = after(FIRST_ANSWER_MS, () => report(new Error(`no answer within ${FIRST_ANSWER_MS} ms`)));
        try {
          const addresses = new Map<string, { readonly host: string; readonly port: number }>();
          for await (const updates of new Service(client, this.#target).watch({ signal })) {
            failures = 0;
            stopTimer();
            for (const update of updates) {
              const address = update.type === 'add' ? addressOf(update.endpoint.address) : undefined;
              if (address === undefined) addresses.delete(update.key);
              else addresses.set(update.key, address);
            }
            const endpoints = [...addresses.values()].map((address) => ({ addresses: [address] }));
            if (signal.aborted) return;
            this.#hadAddress ||= endpoints.length > 0;
            // A channel that has never had an address ignores an empty list, and its calls would wait.
            if (!this.#hadAddress) report(new Error('the service has no instance with an address like host:port'));
            else this.#listener(statusOrFromValue(endpoints), {}, null, '');
          }
          return;
        } catch (error) {
          if (signal.aborted) return;
          report(error);
          if (error instanceof EtcdError && error.reason === 'ClientClosed') return;
        } finally {
          stopTimer();
        }
        await pause(backoffMs(failures), signal);
      }
    }
  }

  registerResolver(scheme, EtcdResolver);
}

function statusOf(error: unknown): Pick<StatusObject, 'code' | 'details'> {
  return { code: status.UNAVAILABLE, details: `could not find the service in etcd: ${messageOf(error)}` };
}

/** Returns undefined if the text is not `host:port`. Square brackets enclose IPv6 addresses. */
function addressOf(address: string): { readonly host: string; readonly port: number } | undefined {
  const { host, bracketed, port } =
    /^(?:\[(?<bracketed>[^\]]+)\]|(?<host>[^:]+)):(?<port>\d{1,5})$/.exec(address)?.groups ?? {};
  const name = host ?? bracketed;
  return name === undefined || Number(port) > 65_535 ? undefined : { host: name, port: Number(port) };
}
