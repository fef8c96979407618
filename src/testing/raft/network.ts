import type { Clock } from '../memory/clock.js';
import type { Message, NodeId } from './messages.js';

/**
 * The network between the members. Without a delay, a message arrives in a microtask, so that a cluster makes progress
 * although its clock stands still.
 */
export class Network<Command> {
  /** Returns how long a message takes, in milliseconds. Undefined: the network loses the message. Default: 0. */
  delayMs: () => number | undefined = () => 0;
  readonly #clock: Clock;
  readonly #nodes = new Map<NodeId, (from: NodeId, message: Message<Command>) => void>();
  readonly #cutOff = new Set<NodeId>();
  /** The deliveries that `runToEnd` will make. */
  #deliveries: (() => void)[] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Delivers the messages to a member from now on. */
  connect(id: NodeId, receive: (from: NodeId, message: Message<Command>) => void): void {
    this.#nodes.set(id, receive);
  }

  /** Loses the messages to a member from now on, because its process has stopped. */
  disconnect(id: NodeId): void {
    this.#nodes.delete(id);
  }

  /** Loses all messages from and to a member, including those that are on their way. */
  cutOff(id: NodeId): void {
    this.#cutOff.add(id);
  }

  /** Ends the effect of `cutOff`. */
  heal(id: NodeId): void {
    this.#cutOff.delete(id);
  }

  isCutOff(id: NodeId): boolean {
    return this.#cutOff.has(id);
  }

  send(from: NodeId, to: NodeId, message: Message<Command>): void {
    this.deliver(from, to, () => this.#nodes.get(to)?.(from, message));
  }

  /** Runs `arrive` at the member `to`, unless the network loses the message or the member is not connected. */
  deliver(from: NodeId, to: NodeId, arrive: () => void): void {
    const delivery = (): void => {
      if (this.#nodes.has(to) && !this.#cutOff.has(from) && !this.#cutOff.has(to)) arrive();
    };
    if (this.#deliveries !== undefined) return void this.#deliveries.push(delivery);
    const delayMs = this.delayMs();
    if (delayMs === 0) queueMicrotask(delivery);
    else if (delayMs !== undefined) this.#clock.after(delayMs, delivery);
  }

  /** Runs `start`, and delivers all messages that it causes, without a delay, before it returns. */
  runToEnd(start: () => void): void {
    this.#deliveries = [];
    start();
    for (const delivery of this.#deliveries) delivery();
    this.#deliveries = undefined;
  }
}
