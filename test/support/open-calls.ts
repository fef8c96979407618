import type { WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import type { MethodPath } from '../../src/gen/methods.js';
import { type Interceptor, observeStream, observeUnary } from '../../src/rpc/index.js';
import type { Init } from '../../src/wire/index.js';

const WATCH: MethodPath = '/etcdserverpb.Watch/Watch';

/** Counts the calls, streams and watches of one client that have not ended, and the calls that have succeeded. */
export class OpenCalls implements Interceptor {
  /** The unary calls that have not ended, by gRPC path. */
  readonly calls = new Map<string, number>();
  /** The streams that have not ended, by gRPC path. */
  readonly streams = new Map<string, number>();
  /** The unary calls that have succeeded, by gRPC path. */
  readonly succeeded = new Map<string, number>();
  /** The watches that servers have created and not ended, on streams that have not ended. */
  watches = 0;

  readonly unary: NonNullable<Interceptor['unary']> = (call, next) => {
    const { path } = call.method;
    add(this.calls, path, 1);
    const ended = (error: unknown): void => {
      add(this.calls, path, -1);
      if (error === undefined) add(this.succeeded, path, 1);
    };
    return observeUnary({ ended }, call, next);
  };

  readonly stream: NonNullable<Interceptor['stream']> = (call, handler, next) => {
    const { path } = call.method;
    const live = new Set<bigint>();
    /** The number of unanswered requests to create a watch. A server cannot add more IDs than the client asks for. */
    let requested = 0;
    add(this.streams, path, 1);
    const over = (): void => {
      add(this.streams, path, -1);
      this.watches -= live.size;
    };
    const request = (message: unknown): void => {
      if ((message as Init<WatchRequest>).requestUnion?.case === 'createRequest') requested += 1;
    };
    const response = (message: unknown): void => {
      const { watchId, created, canceled } = message as WatchResponse;
      this.watches -= live.size;
      // The answer to a refused request says both that the watch was created and that it was canceled.
      if (canceled) live.delete(watchId);
      else if (created && requested > 0) live.add(watchId);
      if (created) requested = Math.max(0, requested - 1);
      this.watches += live.size;
    };
    const ofWatches = path === WATCH ? { request, response } : {};
    return observeStream({ ...ofWatches, ended: over, canceled: over }, call, handler, next);
  };
}

function add(counts: Map<string, number>, path: string, change: number): void {
  counts.set(path, (counts.get(path) ?? 0) + change);
}
