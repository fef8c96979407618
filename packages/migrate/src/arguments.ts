import type { Link } from './context.js';
import type { Node } from './parser.js';
import type { Rewriter } from './rewriter.js';

/** The methods whose result is a string, whatever their object is. */
const STRINGS = /\.(toString|toFixed|toISOString|toUpperCase|toLowerCase|trim|join|padStart|replaceAll)$/;

// The functions below convert the arguments of etcd3's builders, such as `put(key).value(value)`, to the arguments of
// the methods of `Client`.

/** Returns the arguments of a put, from `put(key).value(value).lease(lease)`. */
export function putArguments(rewriter: Rewriter, [put, ...others]: readonly Link[]): string | undefined {
  const key = put === undefined ? undefined : only(rewriter, put);
  let value: string | undefined;
  let lease = '';
  for (const link of others) {
    const [argument, ...more] = link.args;
    if (argument === undefined || more.length > 0) return undefined;
    if (link.name === 'value') value = valueText(rewriter, argument);
    else if (link.name === 'lease' && isLeaseId(rewriter, argument))
      lease = `, { lease: BigInt(${rewriter.emit(argument)}) }`;
    else return undefined;
  }
  return key === undefined || value === undefined ? undefined : `${key}, ${value}${lease}`;
}

export function isRange({ name }: Link): boolean {
  return name === 'prefix' || name === 'all' || name === 'inRange';
}

/** Returns the new text of a range of keys, such as `prefix('a/')`. Undefined if the link has another form. */
export function rangeText(rewriter: Rewriter, link: Link): string | undefined {
  const { parser } = rewriter;
  if (link.name === 'all') return `${rewriter.use('prefix')}('')`;
  const [argument] = link.args;
  if (argument === undefined) return undefined;
  if (link.name === 'prefix') return `${rewriter.use('prefix')}(${rewriter.emit(argument)})`;
  if (!parser.is(argument, 'ObjectLiteralExpression')) return undefined;
  const values = new Map((argument.properties ?? []).map((each) => [each.name?.text, each.initializer]));
  const [start, end] = [values.get('start'), values.get('end')];
  if (start === undefined || end === undefined || values.size !== 2) return undefined;
  return `${rewriter.use('keyRange')}(${rewriter.emit(start)}, ${rewriter.emit(end)})`;
}

/**
 * Returns the text of a value as a string or as bytes, because the value may be a number in etcd3. Returns undefined for
 * an expression of unknown type that is neither a variable nor a property.
 */
export function valueText(rewriter: Rewriter, node: Node): string | undefined {
  const { parser, names } = rewriter;
  const text = rewriter.emit(node);
  if (names.hasType(node, 'StringLike', 'Object')) return text;
  if (names.hasType(node, 'StringLike', 'NumberLike')) return `String(${text})`;
  if (parser.is(node, 'CallExpression')) {
    const called = rewriter.text.slice(node.expression?.getStart(), node.expression?.end);
    return STRINGS.test(called) ? text : undefined;
  }
  const isRepeatable = parser.is(node, 'Identifier', 'PropertyAccessExpression');
  return isRepeatable ? `typeof ${text} === 'number' ? String(${text}) : ${text}` : undefined;
}

/** Whether BigInt accepts the value: the ID of a lease, and not the promise of one. */
function isLeaseId({ parser, names }: Rewriter, node: Node): boolean {
  if (parser.is(node, 'AwaitExpression')) return names.kindOf(node) === undefined;
  return names.hasType(node, 'StringLike', 'NumberLike');
}

/** Returns the text of the only argument of a call. Undefined if the call has no argument or several. */
export function only(rewriter: Rewriter, { args }: Link): string | undefined {
  return args.length === 1 ? rewriter.emit(args[0] as Node) : undefined;
}
