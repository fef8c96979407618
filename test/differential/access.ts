import { ROOT } from './reset.js';
import type { Sent } from './step.js';
import type { Message, Outcome, Server } from './target.js';

/** A token that no server has issued. */
const FOREIGN_TOKEN = 'abcdefghijklmnop.7';
/** The user of a step that carries `FOREIGN_TOKEN`. */
const FOREIGN_USER = '?';
/** The errors of a call without a valid token while authentication is on. */
const WITHOUT_TOKEN: ReadonlySet<string | undefined> = new Set(['UserEmpty', 'InvalidAuthToken']);

/** How one sequence reaches its servers: one server or the members of a cluster, and the tokens of the users. */
export class Access {
  /** The servers by their positions. */
  readonly servers: readonly Server[];
  /** The position of the member that is cut off or killed. */
  lost: number | undefined;
  /** The last token of each user. */
  readonly #tokens = new Map<string, string>();
  /** The tokens for the calls that are not part of the sequence. A member forgets its tokens when it is killed. */
  readonly #rootTokens = new Map<Server, string>();

  constructor(servers: readonly Server[]) {
    this.servers = servers;
  }

  /** The positions of the servers that are neither cut off nor killed. */
  get reachable(): number[] {
    return [...this.servers.keys()].filter((position) => position !== this.lost);
  }

  /** Whether a step goes to the member that is cut off. */
  isLost({ at = 0 }: Sent): boolean {
    return at === this.lost;
  }

  /** Returns the server that gets a request, and remembers that the sequence has called the service. */
  serverOf({ at = 0 }: Sent, service: string): Server {
    const server = this.servers[at] as Server;
    server.called.add(service);
    return server;
  }

  /** Returns the token for a step of this user. Undefined if the step carries no token. */
  tokenOf({ as: user }: Sent): string | undefined {
    if (user === undefined) return undefined;
    return user === FOREIGN_USER ? FOREIGN_TOKEN : this.#tokens.get(user);
  }

  /** Remembers the token of a response. */
  learn(rpc: string, request: Message, message: Message): void {
    if (rpc === 'auth.authenticate') this.#tokens.set(request.name as string, message.token as string);
  }

  /**
   * Makes a call that is not part of the sequence, with the permissions of root. The default of `at` is the first server
   * that is reachable.
   */
  async callAsRoot(name: string, request: Message, at = this.reachable[0] as number): Promise<Outcome> {
    const server = this.servers[at] as Server;
    const { connection } = server;
    const outcome = await connection.unary(name, request, this.#rootTokens.get(server));
    if (!WITHOUT_TOKEN.has(outcome.error?.reason)) return outcome;
    const { messages } = await connection.unary('auth.authenticate', ROOT);
    this.#rootTokens.set(server, (messages[0]?.token ?? 'unknown') as string);
    return connection.unary(name, request, this.#rootTokens.get(server));
  }
}
