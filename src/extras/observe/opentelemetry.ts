import {
  type Attributes,
  type Context,
  context,
  diag,
  type Histogram,
  type MeterProvider,
  metrics,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import {
  checkCan,
  checkFunction,
  checkOptions,
  type EtcdError,
  monotonicMs,
  readError,
  type StatusCode,
} from '../../base/index.js';
import { parseEndpoint } from '../../host/index.js';
import {
  type CallObserver,
  type CancelFailure,
  type Interceptor,
  observeStream,
  observeUnary,
} from '../../rpc/index.js';
import type { Metadata } from '../../wire/index.js';

/**
 * Options of `openTelemetry`.
 *
 * @example
 * const options: OpenTelemetryOptions = { filter: (method) => method !== '/etcdserverpb.Watch/Watch' };
 */
export interface OpenTelemetryOptions {
  /** Creates the tracer. Default: the provider that the program has registered with `@opentelemetry/api`. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Creates the histogram. Default: the provider that the program has registered with `@opentelemetry/api`. */
  readonly meterProvider?: MeterProvider | undefined;
  /**
   * Returns whether to record the calls of a method and to send the trace context with them. `method` is the gRPC path,
   * such as `/etcdserverpb.KV/Put`. Default: all methods.
   */
  readonly filter?: ((method: string) => boolean) | undefined;
}

const OPTIONS = {
  tracerProvider: (value: TracerProvider, argument: string) =>
    checkCan(value, 'getTracer', argument, 'a TracerProvider of OpenTelemetry'),
  meterProvider: (value: MeterProvider, argument: string) =>
    checkCan(value, 'getMeter', argument, 'a MeterProvider of OpenTelemetry'),
  filter: checkFunction,
} as const;

/** The name of the instrumentation scope. */
const SCOPE = 'etcdwire';
const METRIC = 'rpc.client.call.duration';
const METRIC_OPTIONS = {
  description: 'Duration of calls and streams of the etcd client',
  unit: 's',
  // The boundaries that the semantic conventions require. The default boundaries are meant for milliseconds.
  advice: { explicitBucketBoundaries: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10] },
};

/**
 * Returns an interceptor that records a span and the duration of each call and stream, according to OpenTelemetry's
 * semantic conventions for RPC. It sends the trace context to the server as metadata, such as `traceparent`. If a span
 * is active, it becomes the parent of the call's span. Neither spans nor metrics contain a key, value, token or
 * password. If a provider, a propagator or `filter` throws, the call proceeds, and the error goes to the logger of
 * `diag`. Several clients may share the interceptor. `docs/opentelemetry.md` lists what is recorded.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is unknown or invalid.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { openTelemetry } from 'etcdwire/opentelemetry';
 *
 * await using etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], interceptors: [openTelemetry()] });
 * await etcd.put('config/color', 'blue');
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Interceptor {
  checkOptions(options, OPTIONS, 'openTelemetry');
  const { tracerProvider, meterProvider, filter } = options;
  const tracer = (tracerProvider ?? trace).getTracer(SCOPE);
  const histogramOf = durationHistogram(meterProvider);

  /** Returns undefined if the call is not recorded. */
  const startSpan = (path: string): RecordedCall | undefined =>
    safely(() => {
      if (filter !== undefined && !filter(path)) return undefined;
      const method = path.slice(1);
      const attributes = { 'rpc.system.name': 'grpc', 'rpc.method': method };
      const parent = context.active();
      const span = tracer.startSpan(method, { kind: SpanKind.CLIENT, attributes }, parent);
      return new RecordedCall(span, trace.setSpan(parent, span), attributes, histogramOf);
    });

  return {
    unary: (call, next) => {
      const recorded = startSpan(call.method.path);
      if (recorded === undefined) return next(call);
      const traced = (observed: typeof call) => context.with(recorded.context, next, undefined, observed);
      return observeUnary(recorded, call, traced, recorded.inject(call.metadata));
    },
    stream: (call, handler, next) => {
      const recorded = startSpan(call.method.path);
      if (recorded === undefined) return next(call, handler);
      const { metadata } = call;
      const injected =
        metadata instanceof Promise ? metadata.then((given) => recorded.inject(given)) : recorded.inject(metadata);
      // The transport reports the rejection. The empty handler keeps the runtime from reporting it as unhandled.
      if (injected instanceof Promise) injected.catch(() => {});
      return observeStream(recorded, { ...call, metadata: injected }, handler, (observed, receiver) =>
        context.with(recorded.context, next, undefined, observed, receiver),
      );
    },
  };
}

/**
 * Returns a function that returns the histogram of durations. Without `given`, that function looks for the registered
 * provider each time, because the program may register its provider after it has created the client.
 */
function durationHistogram(given: MeterProvider | undefined): () => Histogram {
  let created: { readonly provider: MeterProvider; readonly histogram: Histogram } | undefined;
  return () => {
    const provider = given ?? metrics.getMeterProvider();
    if (created?.provider !== provider)
      created = { provider, histogram: provider.getMeter(SCOPE).createHistogram(METRIC, METRIC_OPTIONS) };
    return created.histogram;
  };
}

class RecordedCall implements CallObserver {
  readonly #span: Span;
  readonly #attributes: Attributes;
  readonly #histogramOf: () => Histogram;
  readonly #startedAt = monotonicMs();
  /** The context in which the span is active. */
  readonly context: Context;
  /** URL of the endpoint of the latest attempt. */
  #endpoint: string | undefined;

  constructor(span: Span, active: Context, attributes: Attributes, histogramOf: () => Histogram) {
    this.#span = span;
    this.context = active;
    this.#attributes = attributes;
    this.#histogramOf = histogramOf;
  }

  /** Returns the metadata with the trace context. Keeps a field that the call already has, such as its token. */
  inject(metadata: Metadata | undefined): Metadata {
    const carrier: Record<string, string> = {};
    safely(() => propagation.inject(this.context, carrier, { set: setField }));
    return { ...carrier, ...metadata };
  }

  attempt(endpoint: string): void {
    this.#endpoint = endpoint;
  }

  retry(error: EtcdError): void {
    const attributes = { 'error.type': error.reason, ...serverOf(this.#endpoint) };
    safely(() => this.#span.addEvent('etcdwire.retry', attributes));
  }

  ended(error: unknown): void {
    this.#end('OK', error === undefined ? undefined : failureOf(error));
  }

  canceled(failure: CancelFailure | undefined): void {
    this.#end('Canceled', failure);
  }

  /** `code` is the status of a call that did not fail. */
  #end(code: StatusCode, failure: Failure | undefined): void {
    const ended = {
      'rpc.response.status_code': nameOf(failure?.code ?? code),
      ...serverOf(this.#endpoint),
      ...(failure && { 'error.type': failure.reason }),
    };
    safely(() => {
      this.#span.setAttributes(ended);
      if (failure !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
      this.#span.end();
    });
    const seconds = (monotonicMs() - this.#startedAt) / 1_000;
    safely(() => this.#histogramOf().record(seconds, { ...this.#attributes, ...ended }, this.context));
  }
}

/** What the interceptor records of an error: `code` and `reason` in spans and metrics, `message` only in spans. */
interface Failure {
  readonly code: StatusCode;
  readonly reason: string;
  readonly message: string;
}

/**
 * Returns the fields of an error to record. An error that is not an `EtcdError` comes from another interceptor. The
 * texts of such an error may contain secrets, so this function leaves them out.
 */
function failureOf(error: unknown): Failure {
  // The error may come from another copy of this package, which has its own class `EtcdError`.
  if (readError(error)?.name === 'EtcdError') return error as EtcdError;
  return { code: 'Unknown', reason: '_OTHER', message: 'an interceptor failed' };
}

/** Returns the name of a status code as the conventions spell it, such as `DEADLINE_EXCEEDED`. */
function nameOf(code: StatusCode): string {
  // Go's spelling, which `StatusCode` has, differs by one letter.
  if (code === 'Canceled') return 'CANCELLED';
  return code.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase();
}

function serverOf(endpoint: string | undefined): Attributes {
  if (endpoint === undefined) return {};
  const { address } = parseEndpoint(endpoint, 'endpoint');
  if ('path' in address) return { 'server.address': address.path };
  return { 'server.address': address.host, 'server.port': address.port };
}

/** Matches the names of metadata that a propagator may set. gRPC reserves names that begin with `grpc-`. */
const FIELD_NAME = /^(?!grpc-)[a-z][\w.-]*(?<!-bin)$/;
/** Names of metadata that have a meaning for etcd or for HTTP/2, so that a propagator must not set them. */
const RESERVED_FIELDS: ReadonlySet<string> = new Set([
  ...['authorization', 'connection', 'content-length', 'content-type', 'hasleader', 'host', 'te', 'token'],
  ...['transfer-encoding', 'user-agent'],
]);
const FIELD_VALUE = /^[\x20-\x7e]+$/;

/** Sets a field of the metadata. Leaves out a field with which the server or the client would refuse the call. */
function setField(carrier: Record<string, string>, key: string, value: string): void {
  const name = key.toLowerCase();
  const isText = typeof value === 'string' && FIELD_VALUE.test(value);
  if (isText && FIELD_NAME.test(name) && !RESERVED_FIELDS.has(name)) carrier[name] = value;
}

/** Returns the result of `action`. If it throws, passes the error to the logger of `diag`, and returns undefined. */
function safely<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    diag.error('etcdwire: could not record a call', error);
    return undefined;
  }
}
