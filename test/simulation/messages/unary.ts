import { canceled, type EtcdError, timedOut } from '../../../src/base/etcd-error.js';
import { onAbort } from '../../../src/base/signals.js';
import { errorFromStatus } from '../../../src/base/status-error.js';
import { at } from '../../../src/base/timers.js';
import { methods } from '../../../src/gen/methods.js';
import { CancelableCall, StatusError, serverError } from '../../../src/testing/memory/service.js';
import { decodeResponse } from '../../../src/wire/messages.js';
import type { UnaryCall } from '../../../src/wire/transport.js';
import type { CallFault, Refusal } from '../call-faults.js';
import { Calls } from '../calls.js';
import { type ClientCall, type Connection, failureOf } from './connection.js';
import type { SimulatedTransport } from './transport.js';

export class SimulatedUnary<Request, Response> implements ClientCall {
  readonly #transport: SimulatedTransport;
  readonly #call: UnaryCall<Request, Response>;
  readonly #bytes: Uint8Array;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: unknown) => void;
  readonly #undos: (() => void)[] = [];
  #connection: Connection | undefined;
  #isOver = false;
  #isSent = false;

  constructor(
    transport: SimulatedTransport,
    call: UnaryCall<Request, Response>,
    bytes: Uint8Array,
    resolve: (response: Response) => void,
    reject: (error: unknown) => void,
  ) {
    this.#transport = transport;
    this.#call = call;
    this.#bytes = bytes;
    this.#resolve = resolve;
    this.#reject = reject;
    const { signal, deadline, timeoutMs, method } = call;
    if (method.path === methods.auth.authenticate.path) this.#countAuthentication();
    this.#undos.push(at(deadline, () => this.fail(timedOut('call', timeoutMs, this.#outcome, method.path))));
    if (signal !== undefined)
      this.#undos.push(onAbort(signal, () => this.fail(canceled(signal, this.#outcome, method.path))));
  }

  /**
   * Counts the unanswered calls with which the client authenticates. A client must make only one such call at a time.
   */
  #countAuthentication(): void {
    const { network, process } = this.#transport;
    const count = (change: 1 | -1): number => {
      const total = (network.authenticating.get(process) ?? 0) + change;
      network.authenticating.set(process, total);
      return total;
    };
    if (count(1) > 1) network.onAuthenticatedTwice(process);
    this.#undos.push(() => void count(-1));
  }

  get #outcome(): 'not-sent' | 'unknown' {
    return this.#isSent ? 'unknown' : 'not-sent';
  }

  send(connection: Connection): void {
    if (this.#isOver || this.#isSent) return;
    this.#isSent = true;
    this.#connection = connection;
    this.#call.observer?.sent?.();
    const { network, process } = this.#transport;
    const { method } = this.#call;
    const fault = network.faultOf(process, method);
    const detail = `${method.path} of ${process.name}`;
    switch (fault?.type) {
      case 'delay request':
        return connection.carry('to-server', 'receives', detail, () => this.#arrive(connection, undefined), fault.ms);
      case 'early copy': {
        connection.carry('to-server', 'receives a copy of', detail, () => this.#arrive(connection, 'copy'));
        return connection.carry('to-server', 'receives', detail, () => this.#arrive(connection, undefined), fault.ms);
      }
      case 'lose request': {
        const { ms } = fault;
        if (ms !== undefined) network.arriveLate(ms, 'receives late', detail, () => this.#arrive(connection, 'late'));
        return connection.cut(false, network.delayMs());
      }
      default:
        return connection.carry('to-server', 'receives', detail, () => this.#arrive(connection, fault));
    }
  }

  fail(error: EtcdError): void {
    if (this.#isOver) return;
    this.#finish();
    this.#reject(failureOf(error, this.#call.method.path, this.#isSent));
  }

  leaving(): void {}

  #finish(): void {
    this.#isOver = true;
    for (const undo of this.#undos.splice(0)) undo();
    this.#transport.ended(this, this.#connection);
  }

  /** The request, or a copy whose response no caller awaits, arrives at the server. */
  #arrive(connection: Connection, fault: CallFault | 'copy' | 'late' | undefined): void {
    const { member, network } = this.#transport;
    if (member.isDown) return;
    const { method, metadata = {} } = this.#call;
    if (typeof fault === 'object' && fault.type === 'refuse' && !fault.isApplied) {
      network.cluster.calls?.received(metadata);
      if (fault.copyMs !== undefined) this.#copyAfter(connection, fault.copyMs);
      return this.#answer(connection, this.#refusal(fault.reason), fault);
    }
    const served = new CancelableCall(fault === 'copy' ? Calls.copyOf(metadata) : metadata, member.url);
    const cancel = (): void => {
      connection.served.delete(cancel);
      served.cancel();
    };
    connection.served.add(cancel);
    const answer = (result: Uint8Array | StatusError): void => {
      connection.served.delete(cancel);
      if (fault === 'copy' || fault === 'late') return;
      // A server could apply a copy of a refused request although the caller knows that the request was refused. No
      // client can prevent that, so only the fault `copy of a refused request` makes such copies.
      if (fault?.type === 'duplicate request' && !(result instanceof StatusError))
        this.#copyAfter(connection, fault.ms);
      this.#answer(connection, fault?.type === 'refuse' ? this.#refusal(fault.reason) : result, fault);
    };
    const failed = (error: unknown): void => {
      if (!(error instanceof StatusError)) network.world.unhandled.push(error);
      answer(error instanceof StatusError ? error : new StatusError('Internal', String(error)));
    };
    try {
      const result = network.cluster.unary(member, method, this.#bytes, served);
      if (result instanceof Promise) result.then(answer, failed);
      else answer(result);
    } catch (error) {
      failed(error);
    }
  }

  /** Lets a copy of the request arrive after `ms`. */
  #copyAfter(connection: Connection, ms: number): void {
    const { network } = this.#transport;
    const { path } = this.#call.method;
    network.arriveLate(ms, 'receives a copy of', path, () => this.#arrive(connection, 'copy'));
  }

  #refusal(reason: Refusal): StatusError {
    const error = serverError(reason);
    this.#transport.network.cluster.calls?.refused(this.#call.metadata ?? {}, error);
    return error;
  }

  #answer(connection: Connection, result: Uint8Array | StatusError, fault: CallFault | undefined): void {
    const { network, endpoint } = this.#transport;
    if (fault?.type === 'lose response') return connection.cut(false, network.delayMs());
    const { method } = this.#call;
    const extraMs = fault?.type === 'delay response' ? fault.ms : 0;
    const isError = result instanceof StatusError;
    const arrive = (): void => {
      if (this.#isOver || connection.isLost) return;
      this.#finish();
      if (isError) {
        const context = { method: method.path, endpoint: endpoint.url };
        this.#reject(errorFromStatus(result.code, result.message, context));
      } else this.#resolve(decodeResponse(method, endpoint.url, result));
    };
    connection.carry('to-client', 'receives', isError ? result.message : `${method.path}`, arrive, extraMs);
  }
}
