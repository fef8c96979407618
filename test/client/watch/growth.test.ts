import { describe, expect, test } from 'vitest';
import { ClientEvents } from '../../../src/base/log.js';
import { KeyWatch } from '../../../src/client/watch/watch.js';
import { WatchStream } from '../../../src/client/watch/watch-stream.js';
import type { WatchRequest, WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { Rpc } from '../../../src/rpc/rpc.js';
import type { Init } from '../../../src/wire/protobuf/writer.js';
import type { StreamHandler, Transport } from '../../../src/wire/transport.js';
import { growth, MAX_GROWTH } from '../../support/measure.js';

describe('creating many watches on one stream', () => {
  test.each([
    ['a server that uses the watch IDs of the client', false],
    ['a proxy that chooses its own watch IDs', true],
  ])('takes work that grows linearly with the number of watches when the peer is %s', (_, ownIds) => {
    expect(
      growth(3_000, (count) => {
        const server = new Answering(ownIds);
        const { signal } = new AbortController();
        const stream = new WatchStream(
          new Rpc(server.transport, {
            timeoutMs: 1_000,
            renewsTokens: false,
            events: new ClientEvents(),
            closed: signal,
          }),
        );
        const watches = Array.from({ length: count }, (_watch, index) => new KeyWatch(stream, `k${index}`, {}));
        return () => {
          expect(server.answerAll()).toBe(watches.length);
        };
      }),
    ).toBeLessThan(MAX_GROWTH);
  });
});

/**
 * A transport whose peer answers every creation request in order. The answer contains the client's watch ID or, with
 * `ownIds`, an ID that the peer chooses.
 */
class Answering {
  readonly #ownIds: boolean;
  #handler: StreamHandler<WatchResponse> | undefined;
  #asked: bigint[] = [];

  constructor(ownIds: boolean) {
    this.#ownIds = ownIds;
  }

  readonly transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, handler) => {
      this.#handler = handler as never;
      const send = ({ requestUnion }: Init<WatchRequest>): void => {
        if (requestUnion?.case === 'createRequest') this.#asked.push(requestUnion.value.watchId ?? 0n);
      };
      return { send: send as never, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
    },
    close: async () => {},
  };

  answerAll(): number {
    let answered = 0;
    for (; this.#asked.length > 0; ) {
      for (const asked of this.#asked.splice(0)) {
        const watchId = this.#ownIds ? BigInt(answered) : asked;
        answered += 1;
        this.#handler?.message({ watchId, created: true, events: [] } as unknown as WatchResponse);
      }
    }
    return answered;
  }
}
