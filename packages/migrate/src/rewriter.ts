import { adviceOnExport, adviceOnOption, adviceOnProperty, OBJECTS } from './advice.js';
import type { Names } from './names.js';
import type { Node, Parser, SourceFile } from './parser.js';

/** A place that the user has to change. */
interface Mark {
  /** Line in the new text, from 1. */
  readonly line: number;
  readonly message: string;
}

export interface Rewritten {
  readonly text: string;
  /** How many expressions were rewritten. */
  readonly rewritten: number;
  readonly marks: readonly Mark[];
}

/** Returns the new text of a node, or undefined if the node is not what the function rewrites. */
type Rewrite = (rewriter: Rewriter, node: Node) => string | undefined;

/** The functions that rewrite the uses of etcd3. */
interface Rewrites {
  readonly call: Rewrite;
  readonly construction: Rewrite;
  readonly options: Rewrite;
}

/** The comments that mark places for the user begin with this text. */
const MARKER = '// etcdwire: ';
/** A placeholder for the new imports, until the new text of the file is complete. No source file contains it. */
const IMPORTS = '\u0000imports\u0000';
/**
 * The entry points of this package other than `etcdwire`, by the names that the rewritten programs import from them.
 */
const ENTRIES: Readonly<Record<string, string>> = {
  withLock: 'etcdwire/locks',
  Session: 'etcdwire/locks',
  stm: 'etcdwire/recipes',
};

/** The types of this package that replace types of etcd3. */
const TYPES: Readonly<Record<string, string>> = {
  Etcd3: 'Client',
  Namespace: 'Keyspace',
  IOptions: 'ClientOptions',
  Watcher: 'Watch',
};

const STATEMENT_LISTS = ['Block', 'SourceFile', 'ModuleBlock', 'CaseClause', 'DefaultClause'];
const MEMBERS = ['PropertyDeclaration', 'MethodDeclaration', 'Constructor', 'GetAccessor', 'SetAccessor'];

/**
 * Rewrites one file. `emit` returns the new text of a node. Nodes that contain no use of etcd3 keep their text, so the
 * file keeps its formatting.
 */
export class Rewriter {
  readonly parser: Parser;
  readonly names: Names;
  readonly text: string;
  readonly #root: Node;
  readonly #rewrites: Rewrites;
  /** The messages of the marks, by the statement, class member or property before which the comment stands. */
  readonly #marks = new Map<Node, Set<string>>();
  /** The text of a new statement that follows a statement in the new text. */
  readonly #following = new Map<Node, string>();
  /** The texts that `emit` has returned, because a caller may need a text twice. */
  readonly #emitted = new Map<Node, string>();
  /** The statements that load etcd3 and that the new imports replace. */
  readonly #replaced: Node[] = [];
  /** The exports of this package that the file needs, and their local names. */
  readonly #uses = new Map<string, string>();
  /** Identifiers of the file. A new import must not have one of these names. */
  readonly #taken: ReadonlySet<string>;
  readonly #loads: readonly Node[];
  /** The exports of etcd3 whose uses stay, by their local names. */
  readonly #kept = new Set<string>();
  /** The statement before which the new imports stand if no statement that loads etcd3 disappears. */
  #importsBefore: Node | undefined;
  #rewritten = 0;

  constructor(parser: Parser, names: Names, root: SourceFile, rewrites: Rewrites) {
    this.parser = parser;
    this.names = names;
    this.#rewrites = rewrites;
    this.text = root.text;
    this.#root = root;
    this.#loads = names.loads(root);
    const identifiers = parser.all(root, (node) => parser.is(node, 'Identifier') && !this.#isPropertyName(node));
    this.#taken = new Set(identifiers.map(({ text }) => text as string));
  }

  /** Returns the new text of the file. */
  run(): Rewritten {
    if (this.#loads.length === 0) this.#importsBefore = this.#firstStatement();
    const body = this.emit(this.#root);
    const imports = this.#imports(body);
    const place = imports === '' && this.#loads.length === 0 ? `${IMPORTS}\n` : IMPORTS;
    const text = body
      .replace(place, () => imports)
      .replaceAll(`${IMPORTS}\n`, '')
      .replaceAll(IMPORTS, '');
    const marks = text.split('\n').flatMap((line, index) => {
      const at = line.indexOf(MARKER);
      return at < 0 ? [] : [{ line: index + 1, message: line.slice(at + MARKER.length) }];
    });
    return { text, rewritten: this.#rewritten, marks };
  }

  /** Returns the new text of a node, with marks before the statements and class members inside. */
  emit(node: Node): string {
    const known = this.#emitted.get(node);
    if (known !== undefined) return known;
    const text = this.#replacement(node) ?? this.copy(node);
    const emitted = this.withLines(node, text);
    this.#emitted.set(node, emitted);
    return emitted;
  }

  /** Returns the text of a node with the new texts of its children. */
  copy(node: Node): string {
    let text = '';
    let at = this.parser.is(node, 'SourceFile') ? 0 : node.getStart();
    for (const child of this.parser.children(node)) {
      // Nodes that the parser has added have no text.
      if (child.end <= at || child.getStart() < at) continue;
      text += this.text.slice(at, child.getStart()) + this.emit(child);
      at = child.end;
    }
    return text + this.text.slice(at, node.end);
  }

  /** Counts an expression as rewritten. Returns its new text. */
  rewrite(text: string): string {
    this.#rewritten += 1;
    return text;
  }

  /** Puts a comment before the statement or class member that contains the node. */
  mark(node: Node, message: string): void {
    const host = this.#isHost(node) ? node : (this.parser.above(node, (each) => this.#isHost(each)) ?? this.#root);
    const messages = this.#marks.get(host) ?? new Set();
    this.#marks.set(host, messages.add(message));
  }

  /** Puts another statement after a statement. */
  follow(statement: Node, text: string): void {
    this.#following.set(statement, text);
  }

  /** Returns the name under which the file can use an export of this package. */
  use(name: string): string {
    const known = this.#uses.get(name);
    if (known !== undefined) return known;
    const [first = '', ...others] = name;
    const alias = `${first === first.toUpperCase() ? 'E' : 'e'}tcd${first.toUpperCase()}${others.join('')}`;
    const local = [name, alias, `${alias}_`].find((each) => !this.#taken.has(each)) ?? `${alias}__`;
    this.#uses.set(name, local);
    return local;
  }

  #replacement(node: Node): string | undefined {
    const { parser } = this;
    if (this.#loads.includes(node)) return this.#load(node);
    if (parser.is(node, 'VariableStatement') && this.#isLoading(node)) return this.#load(node);
    if (parser.is(node, 'ImportEqualsDeclaration') && this.#loads.includes(node.moduleReference as Node))
      return this.#load(node);
    if (parser.is(node, 'NewExpression')) return this.#rewrites.construction(this, node);
    if (parser.is(node, 'ObjectLiteralExpression')) return this.#rewrites.options(this, node);
    if (parser.is(node, 'CallExpression', 'AwaitExpression')) {
      const text = this.#rewrites.call(this, node);
      if (text !== undefined) return text;
    }
    if (!parser.is(node, 'Identifier', 'PropertyAccessExpression', 'QualifiedName')) return undefined;
    this.#markUse(node);
    return this.#reference(node);
  }

  /** Marks a client or another object of etcd3 that goes to other code, and a property of a client. */
  #markUse(node: Node): void {
    const { parser, names } = this;
    const { parent } = node;
    const property = node.name?.text ?? '';
    const owner = parser.is(node, 'PropertyAccessExpression') ? names.kindOf(node.expression) : undefined;
    const isCalled = parser.is(parent, 'CallExpression') && parent.expression === node;
    if (owner === 'options') this.mark(node, adviceOnOption(property));
    else if (owner === 'client' && !isCalled) this.mark(node, adviceOnProperty(property));
    else if (owner !== undefined && owner !== 'client' && owner !== 'transaction' && !isCalled)
      this.mark(node, OBJECTS[owner]);
    const isPassed =
      (parser.is(parent, 'CallExpression', 'NewExpression') && parent.expression !== node) ||
      (parser.is(parent, 'PropertyAssignment') && parent.initializer === node) ||
      parser.is(parent, 'ShorthandPropertyAssignment', 'ReturnStatement', 'ArrayLiteralExpression', 'ExportAssignment');
    if (!isPassed || this.#isPropertyName(node)) return;
    const kind = names.kindOf(node);
    if (kind !== undefined && kind !== 'options' && names.isLost(node, kind))
      this.mark(node, `other code gets this ${kind}; change its calls, too`);
  }

  /** Rewrites a use of an export of etcd3, such as a type. */
  #reference(node: Node): string | undefined {
    const { parser } = this;
    if (parser.is(node, 'Identifier') && (this.#isPropertyName(node) || this.#isDeclared(node))) return undefined;
    const name = this.names.exportOf(node);
    if (name === undefined) return undefined;
    const type = name === 'Lease' && this.names.isRenewing() ? 'Session' : TYPES[name];
    if (type !== undefined) {
      if (parser.above(node, (each) => parser.is(each, 'HeritageClause')) !== undefined)
        this.mark(node, `this class now has the methods of ${type}; change the code that it overrides or implements`);
      return this.rewrite(this.use(type));
    }
    this.#kept.add(parser.is(node, 'Identifier') ? (node.text as string) : '*');
    this.mark(node, adviceOnExport(name));
    return undefined;
  }

  /** Whether the statement has the form `const … = require('etcd3')`. */
  #isLoading({ declarationList }: Node): boolean {
    const [first, ...others] = declarationList?.declarations ?? [];
    return first?.initializer !== undefined && others.length === 0 && this.names.isRequire(first.initializer);
  }

  /**
   * Replaces a statement that loads etcd3 with a placeholder for the new imports. If the statement has an unusual form,
   * keeps and marks it.
   */
  #load(node: Node): string | undefined {
    if (this.parser.is(node, 'ImportDeclaration', 'VariableStatement', 'ImportEqualsDeclaration')) {
      this.#replaced.push(node);
      return IMPORTS;
    }
    this.#importsBefore ??= this.#isHost(node) ? node : this.parser.above(node, (each) => this.#isHost(each));
    this.mark(node, 'load etcdwire instead of etcd3');
    return undefined;
  }

  /** Returns the statements that replace those that load etcd3. */
  #imports(body: string): string {
    // `use` may have returned a name for a call that `migrate-etcd3` did not rewrite in the end. Import only names that
    // the new text contains.
    const code = body
      .split('\n')
      .map((line) => line.split(MARKER, 1)[0])
      .join('\n');
    const kept = this.#replaced.flatMap((node) => this.#keptPart(node));
    const entries = new Map<string, string[]>();
    const isModule = this.#isModule();
    for (const [name, local] of [...this.#uses].sort()) {
      if (!new RegExp(`(?<![.\\w])${local}\\b`).test(code)) continue;
      const entry = ENTRIES[name] ?? 'etcdwire';
      const renamed = isModule ? `${name} as ${local}` : `${name}: ${local}`;
      const isType =
        name === 'Client'
          ? this.#replaced.every(({ importClause }) => importClause?.isTypeOnly === true)
          : Object.values(TYPES).includes(name);
      const imported = name === local ? name : renamed;
      entries.set(entry, [...(entries.get(entry) ?? []), isType ? `type ${imported}` : imported]);
    }
    const added = [...entries].map(([entry, names]) =>
      isModule
        ? `import { ${names.join(', ')} } from '${entry}';`
        : `const { ${names.join(', ')} } = require('${entry}');`,
    );
    return [...kept, ...added].join('\n');
  }

  /** Whether the file imports modules with `import`. */
  #isModule(): boolean {
    if (this.#loads.length > 0) return this.#loads.some((node) => !this.names.isRequire(node));
    const { is } = this.parser;
    return (this.#root.statements ?? []).some(
      (each) =>
        is(each, 'ImportDeclaration', 'ExportDeclaration', 'ExportAssignment') ||
        (each.modifiers ?? []).some((modifier) => is(modifier, 'ExportKeyword')),
    );
  }

  /** Returns the first statement of the file that is not a directive such as 'use strict'. */
  #firstStatement(): Node | undefined {
    const { is } = this.parser;
    return this.#root.statements?.find(
      (each) => !is(each, 'ExpressionStatement') || !is(each.expression, 'StringLiteral'),
    );
  }

  /** Returns the statement that loads etcd3 without the names that the file no longer uses. */
  #keptPart(statement: Node): readonly string[] {
    const { parser } = this;
    const pattern = statement.importClause?.namedBindings ?? statement.declarationList?.declarations?.[0]?.name;
    const original = this.text.slice(statement.getStart(), statement.end);
    if (!parser.is(pattern, 'NamedImports', 'ObjectBindingPattern')) return this.#kept.has('*') ? [original] : [];
    const names = (pattern.elements ?? []).filter(({ name }) => this.#kept.has(name?.text ?? ''));
    if (names.length === 0) return [];
    const texts = names.map((each) => this.text.slice(each.getStart(), each.end));
    const [start, end] = [pattern.getStart(), pattern.end];
    return [
      `${this.text.slice(statement.getStart(), start)}{ ${texts.join(', ')} }${this.text.slice(end, statement.end)}`,
    ];
  }

  /** Whether the identifier is the name of a property or of a member, and not a reference. */
  #isPropertyName(node: Node): boolean {
    const { parent } = node;
    if (this.parser.is(parent, 'PropertyAccessExpression')) return parent.name === node;
    if (this.parser.is(parent, 'QualifiedName')) return parent.right === node;
    return this.parser.is(parent, 'PropertyAssignment', ...MEMBERS, 'MethodSignature', 'PropertySignature')
      ? parent.name === node
      : false;
  }

  #isDeclared(node: Node): boolean {
    return this.parser.is(
      node.parent,
      'ImportSpecifier',
      'ImportClause',
      'NamespaceImport',
      'BindingElement',
      'VariableDeclaration',
      'Parameter',
      'ImportEqualsDeclaration',
    )
      ? node.parent.name === node || node.parent.propertyName === node
      : false;
  }

  /** Whether marks may stand before the node: a statement, a class member, or a property that begins a line. */
  #isHost(node: Node): boolean {
    const { is } = this.parser;
    if (is(node.parent, ...STATEMENT_LISTS) || is(node, ...MEMBERS)) return true;
    const isProperty = is(node, 'PropertyAssignment', 'ShorthandPropertyAssignment', 'SpreadAssignment');
    return isProperty && this.#lineBefore(node).trim() === '';
  }

  /** Returns the text of a line before the node. */
  #lineBefore(node: Node): string {
    const start = node.getStart();
    return this.text.slice(this.text.lastIndexOf('\n', start - 1) + 1, start);
  }

  /**
   * Returns the text of a statement, a class member or a property with the comments before it and the statement after
   * it. Returns the text of another node as it is.
   */
  withLines(node: Node, text: string): string {
    if (!this.#isHost(node)) return text;
    const indent = /^[ \t]*/.exec(this.#lineBefore(node))?.[0] ?? '';
    const before = this.text.slice(node.pos, node.getStart());
    // A former run of the program has marked the statement.
    const comments = before.includes(MARKER) ? [] : [...(this.#marks.get(node) ?? [])];
    const following = this.#following.get(node);
    const imports = this.#importsBefore === node ? `${IMPORTS}\n${indent}` : '';
    const marked = comments.map((message) => `${MARKER}${message}\n${indent}`).join('');
    return imports + marked + text + (following === undefined ? '' : `\n${indent}${following}`);
  }
}
