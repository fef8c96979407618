import { MAX_USUAL_TTL_S } from '../../../src/internal.js';
import { adviceOnOption, LEASE_WITHOUT_RENEWAL, OBJECTS } from './advice.js';
import { isRange, only, putArguments, rangeText } from './arguments.js';
import { type Chain, keptText, type Link, mayAwait, type Use } from './context.js';
import type { Kind, ObjectKind } from './names.js';
import type { Node } from './parser.js';
import type { Rewriter } from './rewriter.js';

/** TTL in seconds of the locks of etcd3. */
const LOCK_TTL_S = '30';

/** Returns the new text of `new Etcd3(…)`. */
export function rewriteConstruction(rewriter: Rewriter, node: Node): string | undefined {
  const { parser, names } = rewriter;
  if (names.exportOf(node.expression) !== 'Etcd3') return undefined;
  const client = `new ${rewriter.use('Client')}`;
  const [options, ...others] = node.arguments ?? [];
  if (options === undefined) return rewriter.rewrite(`${client}()`);
  // The type before a conversion with `as` tells where the options come from.
  const given = parser.is(options, 'AsExpression') ? options.expression : options;
  if (names.kindOf(given) !== 'options' && literalOf(rewriter, options) === undefined)
    rewriter.mark(
      node,
      'these options are made elsewhere: `hosts` is now `endpoints`, a list, and `credentials` is `tls`',
    );
  return rewriter.rewrite(`${client}(${[options, ...others].map((each) => rewriter.emit(each)).join(', ')})`);
}

/** Returns the object literal that an expression or a constant contains. */
function literalOf({ parser, names }: Rewriter, options: Node): Node | undefined {
  if (parser.is(options, 'ObjectLiteralExpression')) return options;
  const value = parser.is(options, 'Identifier') ? names.declarationOf(options)?.initializer : undefined;
  return parser.is(value, 'ObjectLiteralExpression') ? value : undefined;
}

/** Returns the new text of an object literal with options of a client. */
export function rewriteOptions(rewriter: Rewriter, options: Node): string | undefined {
  if (!rewriter.names.isExpected(options, 'options') && !isPassed(rewriter, options)) return undefined;
  const properties = options.properties ?? [];
  const has = (name: string): boolean => properties.some((each) => each.name?.text === name);
  const hosts = hostsOf(rewriter, properties);
  let text = '';
  let at = options.getStart();
  for (const each of properties) {
    text += rewriter.text.slice(at, each.getStart());
    text += rewriter.withLines(each, optionText(rewriter, each, has('credentials'), hosts));
    at = each.end;
  }
  return text + rewriter.text.slice(at, options.end);
}

/** Whether the object literal initializes a variable without a type that the program passes to `new Etcd3`. */
function isPassed(rewriter: Rewriter, literal: Node): boolean {
  const { parser, names } = rewriter;
  const { parent: declaration } = literal;
  if (!parser.is(declaration, 'VariableDeclaration') || declaration.type !== undefined) return false;
  const scope = parser.above(declaration, (each) => parser.is(each, 'Block', 'SourceFile')) as Node;
  const isUse = (node: Node): boolean =>
    parser.is(node, 'NewExpression') &&
    names.exportOf(node.expression) === 'Etcd3' &&
    literalOf(rewriter, node.arguments?.[0] ?? node) === literal;
  return parser.all(scope, isUse).length > 0;
}

/** The hosts of a client, if the options contain them as text. */
type Hosts = readonly string[] | undefined;

function hostsOf({ parser }: Rewriter, properties: readonly Node[]): Hosts {
  const hosts = properties.find(({ name }) => name?.text === 'hosts');
  // An object that the options spread may contain the hosts.
  if (hosts === undefined)
    return properties.some((each) => parser.is(each, 'SpreadAssignment')) ? undefined : ['127.0.0.1:2379'];
  const { initializer } = hosts;
  const all = parser.is(initializer, 'ArrayLiteralExpression') ? (initializer.elements ?? []) : [initializer];
  return all.every((each) => parser.is(each, 'StringLiteral')) ? all.map((each) => each?.text ?? '') : undefined;
}

function optionText(rewriter: Rewriter, property: Node, isTls: boolean, hosts: Hosts): string {
  const { parser } = rewriter;
  const name = property.name?.text;
  const value =
    property.initializer ?? (parser.is(property, 'ShorthandPropertyAssignment') ? property.name : undefined);
  if (name === 'hosts' && value !== undefined) {
    if (hosts !== undefined) return `endpoints: [${hosts.map((host) => `'${hostUrl(host, isTls)}'`).join(', ')}]`;
    if (isTls) rewriter.mark(property, 'with `tls`, each endpoint must begin with https://');
    const text = rewriter.emit(value);
    if (parser.is(value, 'ArrayLiteralExpression')) return `endpoints: ${text}`;
    return `endpoints: [${text}]${rewriter.names.hasType(value, 'StringLike') ? '' : '.flat()'}`;
  }
  if (name === 'auth' && parser.is(value, 'ObjectLiteralExpression')) {
    const isPlain = !isTls && hosts?.every((host) => !host.startsWith('https:'));
    if (!isTls && hosts === undefined)
      rewriter.mark(property, 'for http: endpoints, `auth` also needs `allowPlaintext: true`');
    const texts = (value.properties ?? []).map((each) => rewriter.emit(each));
    if (!(value.properties ?? []).every((each) => ['username', 'password'].includes(each.name?.text ?? '')))
      rewriter.mark(property, '`auth` has only username, password and allowPlaintext');
    return `auth: { ${[...texts, ...(isPlain ? ['allowPlaintext: true'] : [])].join(', ')} }`;
  }
  if (name === 'credentials' && parser.is(value, 'ObjectLiteralExpression')) {
    const names: Readonly<Record<string, string>> = { rootCertificate: 'ca', privateKey: 'key', certChain: 'cert' };
    const texts = (value.properties ?? []).map((each) => {
      const renamed = names[each.name?.text ?? ''];
      const given = each.initializer ?? each.name;
      if (renamed !== undefined && given !== undefined) return `${renamed}: ${rewriter.emit(given)}`;
      rewriter.mark(property, '`tls` has ca, key and cert');
      return rewriter.emit(each);
    });
    return `tls: { ${texts.join(', ')} }`;
  }
  if (name === 'dialTimeout' && value !== undefined) return `connectTimeoutMs: ${rewriter.emit(value)}`;
  rewriter.mark(property, adviceOnOption(name));
  return rewriter.copy(property);
}

function hostUrl(host: string, isTls: boolean): string {
  const address = host.replace(/^https?:\/\//, '');
  return `${isTls || host.startsWith('https:') ? 'https' : 'http'}://${address}`;
}

/** Rewrites `client.lease(ttl)` if an async function gives the lease a name. */
export function leaseText({ rewriter, chain, client, links }: Use): string | undefined {
  if (chain.isOptional || !isSession(rewriter, chain.last)) return undefined;
  const [ttl] = (links[0] as Link).args;
  return `await ${rewriter.use('Session')}.open(${client}, { ${ttlText(rewriter, ttl as Node)} })`;
}

/** Returns the option `ttl` for a number of seconds, with the option that a long TTL needs. */
function ttlText(rewriter: Rewriter, seconds: Node): string {
  const { parser, names } = rewriter;
  const text = rewriter.emit(seconds);
  const declaration = parser.is(seconds, 'Identifier') ? names.declarationOf(seconds) : undefined;
  const value = isConstant(rewriter, declaration) ? declaration?.initializer : seconds;
  if (!parser.is(value, 'NumericLiteral'))
    rewriter.mark(seconds, `a TTL above ${MAX_USUAL_TTL_S} s also needs \`allowLongTtl: true\``);
  return `ttl: ${text}${Number(value?.text) > MAX_USUAL_TTL_S ? ', allowLongTtl: true' : ''}`;
}

/** Whether the program replaces the lease, which is the result of this call, with a session. */
function isSession(rewriter: Rewriter, call: Node | undefined): boolean {
  const { parser, names } = rewriter;
  if (!parser.is(call, 'CallExpression') || call.expression?.name?.text !== 'lease') return false;
  if (call.arguments?.length !== 1 || !mayAwait(rewriter, call)) return false;
  const { parent } = call;
  if (isConstant(rewriter, parent)) return true;
  // Code that does not know the variable may use the lease, and must know that all leases are sessions.
  return names.isRenewing() && (parser.is(parent, 'VariableDeclaration') || isAssigned(rewriter, call));
}

/** Whether the expression is the right side of a statement with an assignment. */
function isAssigned({ parser }: Rewriter, value: Node): boolean {
  const { parent } = value;
  return (
    parser.is(parent, 'BinaryExpression') && parent.right === value && parser.is(parent.parent, 'ExpressionStatement')
  );
}

function isConstant({ parser, text }: Rewriter, declaration: Node | undefined): boolean {
  if (!parser.is(declaration, 'VariableDeclaration')) return false;
  const list = declaration.parent;
  return text.slice(list.getStart(), list.end).startsWith('const');
}

/** Rewrites `client.lock(name).ttl(seconds).do(action)`. */
export function lockText({ rewriter, chain, client, links, isAwait }: Use): string | undefined {
  const { parser } = rewriter;
  const [lock, ...others] = links as [Link, ...Link[]];
  const last = others.at(-1);
  const name = only(rewriter, lock);
  if (isAwait || chain.isOptional || last?.name !== 'do' || name === undefined || others.length > 2) return undefined;
  const [action] = last.args;
  const [ttl] = others.length === 2 ? others : [];
  if (!parser.is(action, 'ArrowFunction', 'FunctionExpression') || (action.parameters ?? []).length > 0)
    return undefined;
  if (ttl !== undefined && (ttl.name !== 'ttl' || ttl.args.length !== 1)) return undefined;
  rewriter.mark(
    chain.last,
    'withLock waits until the lock is free, and etcd3 does not; it excludes no program that still locks with etcd3 (Etcd3Mutex does)',
  );
  const option = ttl === undefined ? `ttl: ${LOCK_TTL_S}` : ttlText(rewriter, ttl.args[0] as Node);
  return `${rewriter.use('withLock')}(${client}, ${name}, { ${option} }, ${rewriter.emit(action)})`;
}

const ISOLATIONS = ['serializableSnapshot', 'serializable', 'repeatableReads', 'readCommitted'];

/** Rewrites `client.stm(options).transact(action)`. */
export function stmText({ rewriter, chain, client, links, isAwait }: Use): string | undefined {
  const [stm, transact, ...others] = links as [Link, ...Link[]];
  const action = transact === undefined ? undefined : only(rewriter, transact);
  if (isAwait || chain.isOptional || transact?.name !== 'transact' || action === undefined || others.length > 0)
    return undefined;
  const options = stmOptions(rewriter, stm.args[0]);
  return options === undefined ? undefined : `${rewriter.use('stm')}(${client}, ${options}${action})`;
}

function stmOptions({ parser }: Rewriter, given: Node | undefined): string | undefined {
  if (given === undefined) return '';
  const options: string[] = [];
  for (const { name, initializer } of given.properties ?? []) {
    if (!parser.is(initializer, 'NumericLiteral')) return undefined;
    const value = Number(initializer.text);
    if (name?.text === 'isolation') options.push(`isolation: '${ISOLATIONS[value]}'`);
    else if (name?.text === 'retries') options.push(`maxAttempts: ${value + 1}`);
    else return undefined;
  }
  return parser.is(given, 'ObjectLiteralExpression') ? `{ ${options.join(', ')} }, ` : undefined;
}

/** Rewrites `await client.watch()….create()` if a statement gives only this watcher a name. */
export function watchText({ rewriter, chain, client, dot, links, isAwait }: Use): string | undefined {
  const named = isAwait ? namedBy(rewriter, chain.last.parent) : undefined;
  if (named === undefined) return undefined;
  const [, ...others] = links as [Link, ...Link[]];
  if (others.pop()?.name !== 'create') return undefined;
  let keys: string | undefined;
  const options: string[] = [];
  for (const link of others) {
    if (link.name === 'key') keys = only(rewriter, link);
    else if (isRange(link)) keys = rangeText(rewriter, link);
    else if (link.name === 'withPreviousKV') options.push('prevKv: true');
    else if (link.name === 'only' && ['put', 'delete'].includes(link.args[0]?.text ?? ''))
      options.push(`only: '${link.args[0]?.text}'`);
    else return undefined;
  }
  if (keys === undefined) return undefined;
  const target = rewriter.text.slice(named.name.getStart(), named.name.end);
  rewriter.follow(named.statement, `await ${target}${dot}created();`);
  return `${client}${dot}watch(${[keys, ...(options.length > 0 ? [`{ ${options.join(', ')} }`] : [])].join(', ')})`;
}

/** Returns the statement that gives a value a name, and the name: a new variable, or a variable or property. */
function namedBy(rewriter: Rewriter, value: Node): { readonly statement: Node; readonly name: Node } | undefined {
  const { parser } = rewriter;
  const { parent } = value;
  if (isAssigned(rewriter, value)) {
    const { left } = parent;
    const isName = parser.is(left, 'Identifier', 'PropertyAccessExpression');
    return isName ? { statement: parent.parent, name: left } : undefined;
  }
  const statement = parent.parent?.parent;
  if (!parser.is(parent, 'VariableDeclaration') || !parser.is(parent.name, 'Identifier')) return undefined;
  if (!parser.is(statement, 'VariableStatement') || parent.parent.declarations?.length !== 1) return undefined;
  return { statement, name: parent.name };
}

/** Whether a call of `lease` asks etcd3 not to renew the lease. */
export function isWithoutRenewal({ parser }: Rewriter, call: Pick<Link, 'name' | 'args'>): boolean {
  const [, options] = call.args;
  const renews = options?.properties?.find((each) => each.name?.text === 'autoKeepAlive');
  return call.name === 'lease' && parser.is(renews?.initializer, 'FalseKeyword');
}

/** Whether the object is a lease that etcd3 does not renew. */
function isUnrenewed(rewriter: Rewriter, { object }: Chain, kind: Kind): boolean {
  const { parser, names } = rewriter;
  if (kind !== 'lease' || !parser.is(object, 'Identifier')) return false;
  const call = names.declarationOf(object)?.initializer;
  return isWithoutRenewal(rewriter, { name: call?.expression?.name?.text ?? '', args: call?.arguments ?? [] });
}

/** Rewrites or marks a call on a lease, watcher, lock or election. */
export function rewriteObjectCall(rewriter: Rewriter, chain: Chain, kind: ObjectKind): string {
  const text = objectText(rewriter, chain, kind);
  if (text !== undefined) return rewriter.rewrite(text);
  rewriter.mark(chain.last, isUnrenewed(rewriter, chain, kind) ? LEASE_WITHOUT_RENEWAL : OBJECTS[kind]);
  return keptText(rewriter, chain);
}

function objectText(rewriter: Rewriter, { object, links, isOptional }: Chain, kind: ObjectKind): string | undefined {
  const { parser, names } = rewriter;
  const [first, ...others] = links as [Link, ...Link[]];
  const name = rewriter.emit(object);
  const dot = isOptional ? '?.' : '.';
  if (kind === 'watcher' && first.name === 'cancel') return `${name}${dot}close()`;
  const declaration = parser.is(object, 'Identifier') ? names.declarationOf(object) : undefined;
  if (kind !== 'lease' || !(names.isRenewing() || isSession(rewriter, declaration?.initializer))) return undefined;
  if (first.name === 'revoke' && first.args.length === 0) return `${name}${dot}close()`;
  if (first.name === 'release') return `${name}${dot}orphan()`;
  if (isOptional) return undefined;
  if (first.name === 'grant') return `Promise.resolve(String(${name}.leaseId))`;
  const put = first.name === 'put' && others.length === 1 ? putArguments(rewriter, links) : undefined;
  return put === undefined ? undefined : `${name}.client.put(${put}, { lease: ${name}.leaseId })`;
}
