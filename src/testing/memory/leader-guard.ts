import type { Init, Method } from '../../wire/index.js';
import { ELECTION_MS } from '../raft/host.js';
import type { Clock } from './clock.js';
import {
  type RequestSink,
  type ResponseStream,
  Router,
  type ServerCall,
  type StreamingHandler,
  serverError,
  type UnaryHandler,
} from './service.js';

// A client requires a leader by the metadata `hasleader: true`. The source in etcd is `v3rpc/interceptor.go`.

/** How long a stream survives without a leader: etcd's `maxNoLeaderCnt`, times the election timeout. */
const NO_LEADER_MS = 3 * ELECTION_MS;

/** Serves no request: the call has ended already. */
const NOTHING: RequestSink<unknown> = { message: () => {}, halfClosed: () => {}, canceled: () => {} };

/** The handlers of a member that may lose its leader. Refuses and ends the calls that require a leader. */
export class GuardedRouter extends Router {
  readonly #clock: Clock;
  readonly #hasLeader: () => boolean;
  /** The functions that end the open streams that require a leader. */
  readonly #streams = new Set<() => void>();
  #stopTimer: (() => void) | undefined;

  constructor(clock: Clock, hasLeader: () => boolean) {
    super();
    this.#clock = clock;
    this.#hasLeader = hasLeader;
  }

  override unary<Request, Response>(
    method: Method<Request, Response, 'unary'>,
    handler: UnaryHandler<Request, Response>,
  ): void {
    super.unary(method, (request, call) => {
      if (requiresLeader(call) && !this.#hasLeader()) throw serverError('NoLeader');
      return handler(request, call);
    });
  }

  override streaming<Request, Response>(
    method: Method<Request, Response, 'server-streaming' | 'bidi-streaming'>,
    handler: StreamingHandler<Request, Response>,
  ): void {
    super.streaming(method, (responses, call) => {
      if (!requiresLeader(call)) return handler(responses, call);
      if (this.#hasLeader()) return this.#guarded(handler, responses, call);
      responses.end(serverError('NoLeader'));
      return NOTHING;
    });
  }

  /** Called when the member has found or lost a leader. Ends the streams if the member finds no leader in time. */
  leaderChanged(): void {
    if (this.#hasLeader()) {
      this.#stopTimer?.();
      this.#stopTimer = undefined;
    } else
      this.#stopTimer ??= this.#clock.after(NO_LEADER_MS, () => {
        this.#stopTimer = undefined;
        for (const end of [...this.#streams]) end();
      });
  }

  #guarded<Request, Response>(
    handler: StreamingHandler<Request, Response>,
    responses: ResponseStream<Response>,
    call: ServerCall,
  ): RequestSink<Request> {
    const end = (): void => {
      sink.canceled();
      own.end(serverError('NoLeader'));
    };
    this.#streams.add(end);
    const own: ResponseStream<Response> = {
      send: (message: Init<Response>) => responses.send(message),
      end: (error) => {
        this.#streams.delete(end);
        responses.end(error);
      },
    };
    const sink = handler(own, call);
    return {
      message: (request) => sink.message(request),
      halfClosed: () => sink.halfClosed(),
      canceled: () => {
        if (this.#streams.delete(end)) sink.canceled();
      },
    };
  }
}

function requiresLeader({ metadata }: ServerCall): boolean {
  return metadata.hasleader === 'true';
}
