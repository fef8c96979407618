import { type Method, tableCodec } from '../../wire/index.js';
import { type Router, StatusError } from './service.js';

// The service `grpc.health.v1.Health`, which etcd registers in `v3rpc/health.go`. etcd knows only the health of the
// service with the empty name, which stands for the whole server. etcd changes this status only with the feature
// `StopGRPCServiceOnDefrag`, which is off by default, so here the status never changes.

interface CheckRequest {
  service: string;
}

interface CheckResponse {
  status: number;
}

const SERVING = 1;
const SERVICE_UNKNOWN = 3;

const request = tableCodec<CheckRequest>('grpc.health.v1.HealthCheckRequest', 's1service');
const response = tableCodec<CheckResponse>('grpc.health.v1.HealthCheckResponse', 'e1status');

/** The methods of the service Health. */
export const health = {
  check: { path: '/grpc.health.v1.Health/Check', kind: 'unary', request, response },
  watch: { path: '/grpc.health.v1.Health/Watch', kind: 'server-streaming', request, response },
} as const satisfies Readonly<Record<string, Method<CheckRequest, CheckResponse>>>;

/** Registers the service Health. */
export function registerHealth(router: Router): void {
  router.unary(health.check, ({ service }) => {
    if (service !== '') throw new StatusError('NotFound', 'unknown service');
    return { status: SERVING };
  });
  // As in etcd, a watch stays open after its first answer.
  router.streaming(health.watch, (responses) => ({
    message: ({ service }) => responses.send({ status: service === '' ? SERVING : SERVICE_UNKNOWN }),
    halfClosed: () => {},
    canceled: () => {},
  }));
}
