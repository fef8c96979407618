import { adviceOnMethod, adviceOnTransaction, LEASE_WITHOUT_RENEWAL } from './advice.js';
import { isRange, only, putArguments, rangeText, valueText } from './arguments.js';
import { type Chain, type Consumer, chainOf, consumerOf, keptText, type Link, type Use } from './context.js';
import { isWithoutRenewal, leaseText, lockText, rewriteObjectCall, stmText, watchText } from './objects.js';
import type { Node } from './parser.js';
import type { Rewriter } from './rewriter.js';

const TARGETS: Readonly<Record<string, string>> = {
  Key: 'key',
  Version: 'version',
  Create: 'createRevision',
  Mod: 'modRevision',
  Value: 'value',
};
const ORDERS: Readonly<Record<string, string>> = { Ascend: 'asc', Descend: 'desc' };
const OPERATORS: Readonly<Record<string, string>> = {
  '==': '==',
  '===': '==',
  '!=': '!=',
  '!==': '!=',
  '>': '>',
  '<': '<',
};
/** The code that converts `kv`, the result of `get`, to the result of a method of etcd3, by the name of that method. */
const READS: Readonly<Record<string, string>> = {
  string: 'kv?.text() ?? null',
  json: 'kv?.json() ?? null',
  number: '(kv === undefined ? null : Number(kv.text()))',
  buffer: '(kv === undefined ? null : Buffer.from(kv.value))',
  exists: 'kv !== undefined',
};
const VALUES: Readonly<Record<string, string>> = {
  strings: 'kv.text()',
  json: 'kv.json()',
  numbers: 'Number(kv.text())',
  buffers: 'Buffer.from(kv.value)',
};
/** The methods of a client with the same name and meaning in both packages. */
const SAME = ['namespace', 'close'];

/** Returns the new text of a call of etcd3, or undefined if the expression is not such a call. */
export function rewriteCall(rewriter: Rewriter, node: Node): string | undefined {
  const { parser, names } = rewriter;
  const isAwait = parser.is(node, 'AwaitExpression');
  const call = isAwait ? node.expression : node;
  if (!parser.is(call, 'CallExpression')) return undefined;
  const chain = chainOf(rewriter, call);
  if (chain === undefined) {
    const object = call.expression?.expression;
    if (!isAwait && names.kindOf(object) === 'client')
      rewriter.mark(call, adviceOnMethod(call.expression?.name?.text ?? ''));
    return undefined;
  }
  const [first] = chain.links as [Link];
  const isThen = ['then', 'catch', 'finally'].includes(chain.links.at(-1)?.name ?? '');
  if (isThen) return undefined;
  const kind = names.kindOf(chain.object);
  if (kind === undefined || kind === 'options') {
    if (!isAwait && looksLikeEtcd3(chain) && names.hasType(chain.object, 'Any', 'Unknown'))
      rewriter.mark(call, `if this object is of etcd3, ${adviceOnMethod(first.name)}`);
    return undefined;
  }
  if (kind !== 'client' && kind !== 'transaction')
    return isAwait ? undefined : rewriteObjectCall(rewriter, chain, kind);
  const { client, dot, links } = withoutNamespaces(rewriter, chain);
  const [method] = links;
  if (method === undefined || (SAME.includes(method.name) && links.length === 1)) return undefined;
  const use: Use = { rewriter, chain, client, dot, links, isAwait, consumer: consumerOf(rewriter, call) };
  const text = kind === 'client' ? HANDLERS[method.name]?.(use) : transactionText(use, method.name);
  if (text !== undefined) return rewriter.rewrite(text);
  // The await expression stays, and the visit of its operand marks the call.
  if (isAwait) return undefined;
  const advice = kind === 'client' ? adviceOnMethod(method.name) : adviceOnTransaction(method.name);
  rewriter.mark(call, isWithoutRenewal(rewriter, method) ? LEASE_WITHOUT_RENEWAL : advice);
  return keptText(rewriter, chain);
}

type Handler = (use: Use) => string | undefined;

const HANDLERS: Readonly<Record<string, Handler>> = {
  get: getText,
  getAll: getAllText,
  put: putText,
  delete: deleteText,
  if: txnText,
  getRoles: (use) => listText(use, 'roleList'),
  getUsers: (use) => listText(use, 'userList'),
  lease: leaseText,
  lock: lockText,
  stm: stmText,
  watch: watchText,
};

/** Rewrites a call whose result nothing reads, because the result is another one in etcdwire. */
function listText({ client, dot, isAwait, consumer }: Use, method: string): string | undefined {
  return isAwait || consumer.reads?.length !== 0 ? undefined : `${client}${dot}auth.${method}()`;
}

/** Rewrites a call in a transaction of `stm`, whose `put` and `delete` return nothing in etcdwire. */
function transactionText(use: Use, method: string): string | undefined {
  const { rewriter, links, consumer } = use;
  if (method === 'get') return getText(use);
  if (use.isAwait || consumer.how !== 'await' || consumer.reads?.length !== 0) return undefined;
  const isOfKey = method === 'delete' && links[1]?.name === 'key';
  const given = method === 'put' ? putArguments(rewriter, links) : isOfKey ? deletedKeys(rewriter, links) : undefined;
  return given === undefined ? undefined : `${use.client}.${method}(${given})`;
}

function getText({ rewriter, chain, client, dot, links, isAwait, consumer }: Use): string | undefined {
  const [get, ...others] = links as [Link, ...Link[]];
  const key = only(rewriter, get);
  const terminal =
    others.length === 0 ? builderTerminal(consumer, 'string') : others.length === 1 ? bare(others[0]) : undefined;
  const read = READS[terminal ?? ''];
  if (key === undefined || read === undefined) return undefined;
  const call = `${client}${dot}get(${key})`;
  // Without await, with `?.`, and for results that use the value twice, a callback converts the value.
  if (isAwait && !chain.isOptional && !read.startsWith('(')) {
    const text = `(await ${call})${read.slice('kv'.length)}`;
    const awaited = chain.last.parent;
    if (hasDefault(rewriter, awaited)) return text.replace(/ \?\? null$/, '');
    return inParentheses(rewriter, awaited, text);
  }
  if (isAwait) return undefined;
  return `${call}.then((kv) => ${read})`;
}

function getAllText({ rewriter, client, dot, links, isAwait, consumer }: Use): string | undefined {
  if (isAwait) return undefined;
  const [, ...others] = links as [Link, ...Link[]];
  let range = `${rewriter.use('prefix')}('')`;
  const options: string[] = [];
  let terminal: string | undefined = builderTerminal(consumer, 'strings');
  for (const [index, link] of others.entries()) {
    const isLast = index === others.length - 1;
    if (isRange(link)) {
      const text = rangeText(rewriter, link);
      if (text === undefined) return undefined;
      range = text;
    } else if (link.name === 'limit' && isLimit(rewriter, link.args[0])) {
      options.push(`limit: ${rewriter.emit(link.args[0] as Node)}`);
    } else if (link.name === 'sort') {
      const [target = '', order = ''] = link.args.map((each) => each.text ?? '');
      if (TARGETS[target] === undefined || ORDERS[order] === undefined) return undefined;
      options.push(`sort: { target: '${TARGETS[target]}', order: '${ORDERS[order]}' }`);
    } else if (isLast) terminal = bare(link);
    else return undefined;
  }
  const mapped = VALUES[terminal ?? ''];
  let read: string | undefined;
  if (mapped !== undefined) read = `({ kvs }) => Object.fromEntries(kvs.map((kv) => [kv.key, ${mapped}]))`;
  if (terminal === 'keys') read = '({ kvs }) => kvs.map((kv) => kv.key)';
  if (terminal === 'count') read = '({ count }) => count';
  if (read === undefined) return undefined;
  if (terminal === 'keys') options.push('keysOnly: true');
  if (terminal === 'count') options.push('countOnly: true');
  const given = options.length === 0 ? range : `${range}, { ${options.join(', ')} }`;
  return `${client}${dot}range(${given}).then(${read})`;
}

function putText({ rewriter, chain, client, dot, links, isAwait, consumer }: Use): string | undefined {
  if (isAwait) return undefined;
  const [steps, isSent] = withoutExec(links);
  const put = putArguments(rewriter, steps);
  if (put === undefined || (consumer.how === 'nothing' && !isSent)) return undefined;
  if (!isSent) checkSent(rewriter, chain, consumer);
  if (consumer.reads?.length !== 0)
    rewriter.mark(chain.last, 'the result of put now has `prevKv` and `header.revision`; check who reads it');
  return `${client}${dot}put(${put})`;
}

function deleteText({ rewriter, chain, client, dot, links, isAwait, consumer }: Use): string | undefined {
  if (isAwait) return undefined;
  const [steps, isSent] = withoutExec(links);
  const keys = deletedKeys(rewriter, steps);
  if (keys === undefined || (consumer.how === 'nothing' && !isSent)) return undefined;
  if (!isSent) checkSent(rewriter, chain, consumer);
  const { reads } = consumer;
  const call = `${client}${dot}delete(${keys})`;
  if (reads?.length === 0) return call;
  if (!reads?.every((each) => each === 'deleted'))
    rewriter.mark(chain.last, 'the result of delete has only `deleted` here; check who reads it');
  // The number is a string in etcd3.
  return `${call}.then(({ deleted }) => ({ deleted: String(deleted) }))`;
}

function deletedKeys(rewriter: Rewriter, [, ...others]: readonly Link[]): string | undefined {
  const [link] = others;
  if (link === undefined || others.length > 1) return undefined;
  return link.name === 'key' ? only(rewriter, link) : isRange(link) ? rangeText(rewriter, link) : undefined;
}

function txnText({ rewriter, chain, client, dot, links, isAwait, consumer }: Use): string | undefined {
  if (isAwait) return undefined;
  const conditions: string[] = [];
  const branches: string[] = [];
  for (const [index, link] of links.entries()) {
    if (link.name === 'if' || link.name === 'and') {
      const text = conditionText(rewriter, link);
      if (text === undefined) return undefined;
      conditions.push(text);
    } else if (link.name === 'then' || link.name === 'else') {
      const operations = link.args.map((each) => operationText(rewriter, client, each));
      if (operations.includes(undefined)) return undefined;
      branches.push(`${link.name}: [${operations.join(', ')}]`);
    } else if (link.name !== 'commit' || index !== links.length - 1) return undefined;
  }
  if (links.at(-1)?.name !== 'commit') return undefined;
  if (!consumer.reads?.every((each) => each === 'succeeded'))
    rewriter.mark(
      chain.last,
      'the result of txn has `succeeded`, and in `responses` one result for each operation; check who reads it',
    );
  return `${client}${dot}txn({ if: [${conditions.join(', ')}], ${branches.join(', ')} })`;
}

function conditionText(rewriter: Rewriter, { args }: Link): string | undefined {
  const [key, column, operator, value] = args;
  const target = TARGETS[column?.text ?? ''];
  const compared = OPERATORS[operator?.text ?? ''];
  if (key === undefined || value === undefined || compared === undefined) return undefined;
  if (target === undefined || target === 'key') return undefined;
  const operand = target === 'value' ? valueText(rewriter, value) : `BigInt(${rewriter.emit(value)})`;
  return operand === undefined
    ? undefined
    : `${rewriter.use('compare')}.${target}(${rewriter.emit(key)}, '${compared}', ${operand})`;
}

/**
 * Returns the text of an operation. Returns undefined if the operation uses another client than the transaction, such
 * as a namespace, which has its own prefix.
 */
function operationText(rewriter: Rewriter, client: string, node: Node): string | undefined {
  const chain = rewriter.parser.is(node, 'CallExpression') ? chainOf(rewriter, node) : undefined;
  if (chain === undefined || rewriter.names.kindOf(chain.object) !== 'client') return undefined;
  if (rewriter.emit(chain.object) !== client) return undefined;
  const [first] = chain.links as [Link];
  const op = rewriter.use('op');
  if (first.name === 'get' && chain.links.length === 1) return `${op}.get(${only(rewriter, first)})`;
  const args =
    first.name === 'put'
      ? putArguments(rewriter, chain.links)
      : first.name === 'delete'
        ? deletedKeys(rewriter, chain.links)
        : undefined;
  return args === undefined ? undefined : `${op}.${first.name}(${args})`;
}

/** Separates `exec()` at the end of a chain, with which etcd3 sends the call at once, from the rest. */
function withoutExec(links: readonly Link[]): readonly [readonly Link[], boolean] {
  return bare(links.at(-1)) === 'exec' ? [links.slice(0, -1), true] : [links, false];
}

/** Marks a call that etcd3 sends only if the caller awaits its result. */
function checkSent(rewriter: Rewriter, { last }: Chain, { how }: Consumer): void {
  if (how === 'unknown') rewriter.mark(last, 'etcd3 sends this call when something awaits it, and etcdwire at once');
}

/** Returns the name of a method that is called without arguments. */
function bare(link: Link | undefined): string | undefined {
  return link?.args.length === 0 ? link.name : undefined;
}

/**
 * Returns `name`, the method that etcd3 calls if the program awaits the builder itself. Undefined if nothing awaits it.
 */
function builderTerminal({ how }: Consumer, name: string): string | undefined {
  return how === 'await' || how === 'promise' ? name : undefined;
}

function isLimit({ names }: Rewriter, node: Node | undefined): boolean {
  return node !== undefined && names.hasType(node, 'NumberLike');
}

/** Whether the code around an expression replaces null, which is undefined in etcdwire, with another value. */
function hasDefault(rewriter: Rewriter, node: Node): boolean {
  const { parser } = rewriter;
  const { parent } = node;
  if (parser.is(parent, 'ParenthesizedExpression')) return hasDefault(rewriter, parent);
  return (
    parser.is(parent, 'BinaryExpression') &&
    parent.left === node &&
    parser.is(parent.operatorToken, 'QuestionQuestionToken')
  );
}

/** Returns the new text of an await expression, in parentheses unless the code around the expression needs none. */
function inParentheses({ parser }: Rewriter, awaited: Node, text: string): string {
  const { parent } = awaited;
  const isLast =
    parser.is(parent, 'VariableDeclaration', 'ReturnStatement', 'ExpressionStatement', 'PropertyAssignment') ||
    parser.is(parent, 'ArrayLiteralExpression', 'ArrowFunction') ||
    (parser.is(parent, 'CallExpression') && parent.expression !== awaited);
  return isLast || parser.is(parent, 'ParenthesizedExpression') ? text : `(${text})`;
}

/** The methods of etcd3 that follow another one, by its name, and that hardly any other package has in this order. */
const FOLLOWERS: Readonly<Record<string, readonly string[]>> = {
  get: ['string', 'number', 'exists'],
  getAll: [...Object.keys(VALUES), 'prefix', 'all', 'inRange', 'keys', 'count', 'sort', 'limit'],
  put: ['value'],
  delete: ['key', 'prefix', 'all', 'inRange'],
  watch: ['key', 'prefix', 'inRange'],
  lock: ['ttl', 'acquire', 'do'],
  stm: ['transact'],
};
/** The methods that have no arguments in etcd3. */
const WITHOUT_ARGUMENTS = ['getAll', 'delete', 'watch'];

function looksLikeEtcd3({ links: [first, second] }: Chain): boolean {
  if (first === undefined || second === undefined) return false;
  if (WITHOUT_ARGUMENTS.includes(first.name) && first.args.length > 0) return false;
  return FOLLOWERS[first.name]?.includes(second.name) === true;
}

/**
 * Separates the calls of `namespace` at the beginning of a chain, which mean the same in both packages, from the rest.
 */
function withoutNamespaces(
  rewriter: Rewriter,
  { object, links, isOptional }: Chain,
): Pick<Use, 'client' | 'dot' | 'links'> {
  let client = rewriter.emit(object);
  let dot = isOptional ? '?.' : '.';
  let at = 0;
  for (; links[at]?.name === 'namespace' && at < links.length - 1; at += 1) {
    client += `${dot}namespace(${(links[at] as Link).args.map((each) => rewriter.emit(each)).join(', ')})`;
    dot = '.';
  }
  return { client, dot, links: links.slice(at) };
}
