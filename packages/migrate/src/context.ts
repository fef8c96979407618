import type { Node } from './parser.js';
import type { Rewriter } from './rewriter.js';

/** One call of a chain such as `client.put('a').value('b')`. */
export interface Link {
  readonly name: string;
  readonly args: readonly Node[];
}

/** A chain of method calls on an object. */
export interface Chain {
  /** The object on which the first method is called. */
  readonly object: Node;
  readonly links: readonly Link[];
  /** Whether the first method is called with `?.`. */
  readonly isOptional: boolean;
  /** The last call of the chain. */
  readonly last: Node;
}

const PROMISE_METHODS = ['then', 'catch', 'finally'];

/**
 * Returns the chain of method calls that ends with this call, without `then`, `catch` and `finally` of a promise.
 * Returns undefined if the calls have another form, such as a second `?.`, or comments between them.
 */
export function chainOf(rewriter: Rewriter, call: Node): Chain | undefined {
  const { parser, text } = rewriter;
  const links: Link[] = [];
  let node = call;
  let isOptional = false;
  while (parser.is(node, 'CallExpression') && parser.is(node.expression, 'PropertyAccessExpression')) {
    const access = node.expression;
    if (isOptional || node.questionDotToken !== undefined) return undefined;
    isOptional = access.questionDotToken !== undefined;
    links.unshift({ name: access.name?.text ?? '', args: node.arguments ?? [] });
    node = access.expression as Node;
  }
  if (links.length === 0) return undefined;
  let between = '';
  let at = node.end;
  for (const argument of links.flatMap(({ args }) => args)) {
    between += `${text.slice(at, argument.getStart())} `;
    at = argument.end;
  }
  // The new text would lose a comment.
  return /\/[/*]/.test(between + text.slice(at, call.end))
    ? undefined
    : { object: node, links, isOptional, last: call };
}

/** What a program does with the value of a builder or a promise. */
export interface Consumer {
  /**
   * `await` and `promise`: something waits for the value. `unknown`: the program passes the value to code that
   * `consumerOf` does not follow. `nothing`: nothing waits for the value.
   */
  readonly how: 'await' | 'promise' | 'unknown' | 'nothing';
  /** Which properties of the value the program reads. Undefined if that is unknown. */
  readonly reads: readonly string[] | undefined;
}

export function consumerOf(rewriter: Rewriter, node: Node): Consumer {
  const { parser, names } = rewriter;
  const { parent } = node;
  if (parser.is(parent, 'ParenthesizedExpression')) return consumerOf(rewriter, parent);
  if (parser.is(parent, 'AwaitExpression')) return { how: 'await', reads: readsOf(rewriter, parent) };
  if (parser.is(parent, 'PropertyAccessExpression') && PROMISE_METHODS.includes(parent.name?.text ?? '')) {
    const call = parent.parent;
    const isThen = parent.name?.text === 'then';
    const reads = isThen ? readsOfCallback(rewriter, call.arguments?.[0]) : consumerOf(rewriter, call).reads;
    return { how: 'promise', reads };
  }
  // Another method of a builder may follow, such as `exec`.
  if (parser.is(parent, 'ExpressionStatement', 'VoidExpression', 'PropertyAccessExpression'))
    return { how: 'nothing', reads: [] };
  if (parser.is(parent, 'ArrayLiteralExpression') && isPromiseAll(rewriter, parent.parent)) {
    const all = consumerOf(rewriter, parent.parent);
    return { how: 'promise', reads: all.reads?.length === 0 ? [] : undefined };
  }
  const isReturned =
    parser.is(parent, 'ReturnStatement') || (parser.is(parent, 'ArrowFunction') && parent.body === node);
  if (isReturned) {
    const around = parser.is(parent, 'ArrowFunction') ? parent : names.functionAround(node);
    if (around !== undefined && names.isAsync(around)) return { how: 'promise', reads: undefined };
    const mapped = around?.parent;
    const isMapped = parser.is(mapped, 'CallExpression') && mapped.expression?.name?.text === 'map';
    if (isMapped && isPromiseAll(rewriter, mapped.parent))
      return { how: 'promise', reads: consumerOf(rewriter, mapped.parent).reads };
  }
  return { how: 'unknown', reads: undefined };
}

/** Whether the statements around a node may contain `await`. */
export function mayAwait(rewriter: Rewriter, node: Node): boolean {
  const around = rewriter.names.functionAround(node);
  return around !== undefined && rewriter.names.isAsync(around);
}

function isPromiseAll({ parser }: Rewriter, call: Node): boolean {
  if (!parser.is(call, 'CallExpression') || !parser.is(call.expression, 'PropertyAccessExpression')) return false;
  return call.expression.expression?.text === 'Promise';
}

/** Returns the properties that the program reads from the value of an expression. Undefined if that is unknown. */
function readsOf(rewriter: Rewriter, expression: Node): readonly string[] | undefined {
  const { parser, names } = rewriter;
  const { parent } = expression;
  if (parser.is(parent, 'ExpressionStatement', 'VoidExpression')) return [];
  if (parser.is(parent, 'ParenthesizedExpression')) return readsOf(rewriter, parent);
  if (parser.is(parent, 'PropertyAccessExpression')) return [parent.name?.text ?? ''];
  if (!parser.is(parent, 'VariableDeclaration')) return undefined;
  const { name } = parent;
  if (parser.is(name, 'ObjectBindingPattern')) return propertiesOf(rewriter, name);
  if (!parser.is(name, 'Identifier')) return undefined;
  const scope = names.functionAround(parent) ?? parser.above(parent, (each) => parser.is(each, 'SourceFile'));
  if (scope === undefined) return undefined;
  const uses = parser.all(
    scope,
    (node) => parser.is(node, 'Identifier') && node !== name && isReference(rewriter, node, parent),
  );
  const reads = uses.map((use) =>
    parser.is(use.parent, 'PropertyAccessExpression') ? use.parent.name?.text : undefined,
  );
  return reads.includes(undefined) ? undefined : (reads as string[]);
}

/** Whether the identifier refers to the variable, and is not the name of a property. */
function isReference({ parser, names }: Rewriter, node: Node, declaration: Node): boolean {
  const { parent } = node;
  if (node.text !== declaration.name?.text || names.declarationOf(node) !== declaration) return false;
  return !parser.is(parent, 'PropertyAccessExpression', 'PropertyAssignment') || parent.name !== node;
}

function readsOfCallback(rewriter: Rewriter, callback: Node | undefined): readonly string[] | undefined {
  const { parser } = rewriter;
  if (!parser.is(callback, 'ArrowFunction', 'FunctionExpression')) return undefined;
  const [first, ...others] = callback.parameters ?? [];
  if (first === undefined) return [];
  if (others.length > 0) return undefined;
  const { name } = first;
  if (parser.is(name, 'ObjectBindingPattern')) return propertiesOf(rewriter, name);
  const uses = parser.all(
    callback.body as Node,
    (node) => parser.is(node, 'Identifier') && isReference(rewriter, node, first),
  );
  const reads = uses.map(({ parent }) =>
    parser.is(parent, 'PropertyAccessExpression') ? parent.name?.text : undefined,
  );
  return reads.includes(undefined) ? undefined : (reads as string[]);
}

function propertiesOf({ parser }: Rewriter, pattern: Node): readonly string[] | undefined {
  const names = (pattern.elements ?? []).map(({ propertyName, name }) => propertyName ?? name);
  return names.every((name) => parser.is(name, 'Identifier')) ? names.map((name) => name?.text as string) : undefined;
}

/** Returns the text of a chain that `migrate-etcd3` does not rewrite, with the new texts of its arguments. */
export function keptText(rewriter: Rewriter, { object, links, last }: Chain): string {
  let text = rewriter.emit(object);
  let at = object.end;
  for (const node of links.flatMap(({ args }) => args)) {
    text += rewriter.text.slice(at, node.getStart()) + rewriter.emit(node);
    at = node.end;
  }
  return text + rewriter.text.slice(at, last.end);
}

/** A chain of calls on a client, and what the program does with the value of the chain. */
export interface Use {
  readonly rewriter: Rewriter;
  readonly chain: Chain;
  /** The text of the client or namespace. */
  readonly client: string;
  /** The text between the client and the name of a method: `.` or `?.`. */
  readonly dot: string;
  readonly links: readonly Link[];
  /** Whether the text to return stands for the await expression around the call. */
  readonly isAwait: boolean;
  readonly consumer: Consumer;
}
