import { MAX_USUAL_TTL_S } from '../../../src/internal.js';
import { adviceOnOption, LEASE_WITHOUT_RENEWAL, OBJECTS, type ObjectKind } from './advice.js';
import { isRange, only, putArguments, rangeText } from './arguments.js';
import { type Chain, keptText, type Link, mayAwait, type Use } from './context.js';
import type { Kind } from './names.js';
import type { Node } from './parser.js';
import type { Rewriter } from './rewriter.js';

/** TTL in seconds of the locks of etcd3. */
const LOCK_TTL_S = '30';

/** Returns the new text of `new Etcd3(…)`. */
export function rewriteConstruction(rewriter: Rewriter, node: Node): string | undefined {
  const { names } = rewriter;
  if (names.exportOf(node.expression) !== 'Etcd3') return undefined;
  const client = `new ${rewriter.use('Client')}`;
  const [options, ...others] = node.arguments ?? [];
  if (options === undefined) return rewriter.rewrite(`${client}()`);
  if (names.kindOf(options) !== 'options' && literalOf(rewriter, options) === undefined)
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
    text += rewriter.text.slice(at, each.getStart()) + optionText(rewriter, each, has('credentials'), hosts);
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
    return `endpoints: ${parser.is(value, 'ArrayLiteralExpression') ? text : `[${text}].flat()`}`;
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
  rewriter.mark(property, adviceOnOption(name));
  return rewriter.emit(property);
}

function hostUrl(host: string, isTls: boolean): string {
  const address = host.replace(/^https?:\/\//, '');
  return `${isTls || host.startsWith('https:') ? 'https' : 'http'}://${address}`;
}

/** Rewrites `client.lease(ttl)` if it initializes a constant in an async function. */
export function leaseText({ rewriter, chain, client, links }: Use): string | undefined {
  const { parent } = chain.last;
  if (!rewriter.parser.is(parent, 'VariableDeclaration') || !isSession(rewriter, parent)) return undefined;
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

/** Whether the variable contains a lease that `migrate-etcd3` replaces with a session. */
function isSession(rewriter: Rewriter, declaration: Node | undefined): boolean {
  const { parser } = rewriter;
  const call = declaration?.initializer;
  if (!parser.is(declaration, 'VariableDeclaration') || !parser.is(call, 'CallExpression')) return false;
  const { expression, arguments: given } = call;
  if (!isConstant(rewriter, declaration)) return false;
  return given?.length === 1 && expression?.name?.text === 'lease' && mayAwait(rewriter, declaration);
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
  if (isAwait || last?.name !== 'do' || name === undefined || others.length > 2) return undefined;
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

/** Rewrites `await client.watch()….create()` if it initializes the only variable of a statement. */
export function watchText({ rewriter, chain, client, links, isAwait }: Use): string | undefined {
  const { parser } = rewriter;
  const declaration = chain.last.parent.parent;
  const statement = declaration?.parent?.parent;
  if (!isAwait || !parser.is(declaration, 'VariableDeclaration') || !parser.is(declaration.name, 'Identifier'))
    return undefined;
  if (!parser.is(statement, 'VariableStatement') || declaration.parent.declarations?.length !== 1) return undefined;
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
  rewriter.follow(statement, `await ${declaration.name.text}.created();`);
  return `${client}.watch(${[keys, ...(options.length > 0 ? [`{ ${options.join(', ')} }`] : [])].join(', ')})`;
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

function objectText(rewriter: Rewriter, { object, links }: Chain, kind: Kind): string | undefined {
  const { parser, names } = rewriter;
  const [first, ...others] = links as [Link, ...Link[]];
  const declaration = parser.is(object, 'Identifier') ? names.declarationOf(object) : undefined;
  const name = rewriter.emit(object);
  if (kind === 'watcher' && first.name === 'cancel' && declaration !== undefined) return `${name}.close()`;
  if (kind !== 'lease' || !isSession(rewriter, declaration)) return undefined;
  if (first.name === 'revoke' && first.args.length === 0) return `${name}.close()`;
  if (first.name === 'release') return `${name}.orphan()`;
  if (first.name === 'grant') return `Promise.resolve(String(${name}.leaseId))`;
  const put = first.name === 'put' && others.length === 1 ? putArguments(rewriter, links) : undefined;
  return put === undefined ? undefined : `${name}.client.put(${put}, { lease: ${name}.leaseId })`;
}
