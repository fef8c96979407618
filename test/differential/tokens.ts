import { ROOT } from './reset.js';
import type { Message, Outcome, Server } from './target.js';

/** A token that no server has issued. */
const FOREIGN_TOKEN = 'abcdefghijklmnop.7';
/** The user of a step that carries `FOREIGN_TOKEN`. */
const FOREIGN_USER = '?';

/** The tokens of the users at one server. */
export class Tokens {
  readonly #server: Server;
  /** The last token of each user. */
  readonly #tokens = new Map<string, string>();
  /** The token of root for the calls that are not part of the sequence. Undefined if authentication is off. */
  #rootToken: string | undefined;

  constructor(server: Server) {
    this.#server = server;
  }

  /** Returns the token for a step of this user. Undefined if the step carries no token. */
  of(user: string | undefined): string | undefined {
    if (user === undefined) return undefined;
    return user === FOREIGN_USER ? FOREIGN_TOKEN : this.#tokens.get(user);
  }

  /** Remembers the tokens of a response, and whether authentication is on. */
  learn(rpc: string, request: Message, message: Message): void {
    if (rpc === 'auth.authenticate') this.#tokens.set(request.name as string, message.token as string);
    if (rpc === 'auth.authEnable') this.#rootToken = 'unknown';
    if (rpc === 'auth.authDisable') this.#rootToken = undefined;
  }

  /** Makes a call that is not part of the sequence, with the permissions of root. */
  async callAsRoot(name: string, request: Message): Promise<Outcome> {
    const { connection } = this.#server;
    const outcome = await connection.unary(name, request, this.#rootToken);
    if (this.#rootToken === undefined || outcome.error?.reason !== 'InvalidAuthToken') return outcome;
    const { messages } = await connection.unary('auth.authenticate', ROOT);
    this.#rootToken = (messages[0]?.token ?? 'unknown') as string;
    return connection.unary(name, request, this.#rootToken);
  }
}
