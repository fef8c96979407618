import type { Link } from './context.js';
import type { Node } from './parser.js';
import type { Rewriter } from './rewriter.js';

/** Matches functions and methods whose result is a string or a Buffer, whatever their arguments are. */
const STRINGS =
  /^(JSON\.stringify|String|Buffer\.(from|alloc|concat))$|\.(toString|toFixed|toISOString|toUpperCase|toLowerCase|trim|join|padStart|replaceAll)$/;

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
 * Returns the text of a value as a string, because the value may be a number in etcd3. Returns undefined for an
 * expression of unknown type that is neither a variable nor a property.
 */
export function valueText(rewriter: Rewriter, node: Node): string | undefined {
  const { parser, names } = rewriter;
  const text = rewriter.emit(node);
  if (parser.is(node, 'StringLiteral', 'NoSubstitutionTemplateLiteral', 'TemplateExpression')) return text;
  if (parser.is(node, 'NumericLiteral')) return `String(${text})`;
  if (parser.is(node, 'CallExpression')) {
    const called = rewriter.text.slice(node.expression?.getStart(), node.expression?.end);
    return STRINGS.test(called) ? text : undefined;
  }
  if (!parser.is(node, 'Identifier', 'PropertyAccessExpression')) return undefined;
  const type = parser.is(node, 'Identifier') ? names.declarationOf(node)?.type : undefined;
  if (parser.is(type, 'StringKeyword')) return text;
  return parser.is(type, 'NumberKeyword')
    ? `String(${text})`
    : `typeof ${text} === 'number' ? String(${text}) : ${text}`;
}

/** Whether BigInt accepts the value: the ID of a lease, and not the promise of one. */
function isLeaseId({ parser, names }: Rewriter, node: Node): boolean {
  if (parser.is(node, 'AwaitExpression', 'StringLiteral', 'NumericLiteral')) return names.kindOf(node) === undefined;
  if (!parser.is(node, 'Identifier')) return false;
  const declaration = names.declarationOf(node);
  return (
    parser.is(declaration?.type, 'StringKeyword', 'NumberKeyword') ||
    parser.is(declaration?.initializer, 'AwaitExpression')
  );
}

/** Returns the text of the only argument of a call. Undefined if the call has no argument or several. */
export function only(rewriter: Rewriter, { args }: Link): string | undefined {
  return args.length === 1 ? rewriter.emit(args[0] as Node) : undefined;
}
