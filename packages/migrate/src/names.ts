import type { Node, Parsed, Parser } from './parser.js';

/** What an expression is, as far as the text of one file shows. */
export type Kind = 'client' | 'lease' | 'watcher' | 'lock' | 'election';

/** The kinds of the classes of etcd3. */
const KINDS: Readonly<Record<string, Kind>> = {
  Etcd3: 'client',
  Namespace: 'client',
  Lease: 'lease',
  Watcher: 'watcher',
  Lock: 'lock',
  Election: 'election',
};

/** The kinds of the results of a client's methods. */
const RESULTS: Readonly<Record<string, Kind>> = {
  namespace: 'client',
  lease: 'lease',
  lock: 'lock',
  election: 'election',
};

const FUNCTIONS = [
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunction',
  'MethodDeclaration',
  'Constructor',
  'GetAccessor',
  'SetAccessor',
];
const CLASSES = ['ClassDeclaration', 'ClassExpression'];

/** Finds out which names of a file refer to something from etcd3. Uses no types that other files declare. */
export class Names {
  readonly #parser: Parser;
  readonly #root: Node;
  /** The declarations of each scope that `#declarationsOf` has examined. */
  readonly #scopes = new Map<Node, ReadonlyMap<string, Node>>();
  readonly #assignments: readonly Node[];
  /** Declarations and assignments whose kind is being determined, so that a circular reference ends. */
  readonly #open = new Set<Node>();

  constructor(parser: Parser, { root }: Parsed) {
    this.#parser = parser;
    this.#root = root;
    this.#assignments = parser.all(
      root,
      (node) =>
        parser.is(node, 'BinaryExpression') &&
        parser.is(node.operatorToken, 'EqualsToken', 'QuestionQuestionEqualsToken'),
    );
  }

  /** Returns the statements that load etcd3. */
  loads(): readonly Node[] {
    const { is } = this.#parser;
    return this.#parser.all(this.#root, (node) => {
      if (is(node, 'ImportDeclaration', 'ExportDeclaration')) return node.moduleSpecifier?.text === 'etcd3';
      if (is(node, 'ExternalModuleReference')) return node.expression?.text === 'etcd3';
      return this.isRequire(node);
    });
  }

  isRequire(node: Node): boolean {
    const { is } = this.#parser;
    if (!is(node, 'CallExpression') || node.expression?.text !== 'require') return false;
    return is(node.arguments?.[0], 'StringLiteral') && node.arguments[0].text === 'etcd3';
  }

  /** Returns the name of the export of etcd3 to which an identifier, `module.name` or a type refers. */
  exportOf(node: Node | undefined): string | undefined {
    const { is } = this.#parser;
    if (is(node, 'PropertyAccessExpression', 'QualifiedName')) {
      const [object, name] = node.expression === undefined ? [node.left, node.right] : [node.expression, node.name];
      return is(object, 'Identifier') && this.#isModule(this.declarationOf(object)) ? name?.text : undefined;
    }
    if (!is(node, 'Identifier')) return undefined;
    const declaration = this.declarationOf(node);
    if (declaration === undefined) return undefined;
    const isLoaded = is(declaration, 'ImportSpecifier')
      ? declaration.parent.parent.parent.moduleSpecifier?.text === 'etcd3'
      : is(declaration, 'BindingElement') && this.#isRequired(declaration.parent.parent);
    return isLoaded ? (declaration.propertyName ?? declaration.name)?.text : undefined;
  }

  #isRequired({ initializer }: Node): boolean {
    return initializer !== undefined && this.isRequire(initializer);
  }

  /** Whether the declaration binds all of etcd3 to one name. */
  #isModule(declaration: Node | undefined): boolean {
    const { is } = this.#parser;
    if (is(declaration, 'NamespaceImport')) return declaration.parent.parent.moduleSpecifier?.text === 'etcd3';
    if (is(declaration, 'ImportEqualsDeclaration')) return declaration.moduleReference?.expression?.text === 'etcd3';
    return is(declaration, 'VariableDeclaration') && this.#isRequired(declaration);
  }

  kindOf(node: Node | undefined): Kind | undefined {
    const { is } = this.#parser;
    if (node === undefined) return undefined;
    if (is(node, 'ParenthesizedExpression', 'NonNullExpression')) return this.kindOf(node.expression);
    if (is(node, 'AsExpression')) return this.#kindOfType(node.type) ?? this.kindOf(node.expression);
    if (is(node, 'NewExpression')) return KINDS[this.exportOf(node.expression) ?? ''];
    if (is(node, 'AwaitExpression')) return this.#isWatchCreation(node.expression) ? 'watcher' : undefined;
    if (is(node, 'CallExpression')) {
      const { expression } = node;
      if (!is(expression, 'PropertyAccessExpression')) return undefined;
      if (expression.name?.text === 'ttl' && this.kindOf(expression.expression) === 'lock') return 'lock';
      return this.kindOf(expression.expression) === 'client' ? RESULTS[expression.name?.text ?? ''] : undefined;
    }
    if (is(node, 'Identifier')) return this.#kindOfDeclaration(this.declarationOf(node), node.text);
    if (is(node, 'PropertyAccessExpression') && is(node.expression, 'ThisKeyword')) return this.#kindOfMember(node);
    return undefined;
  }

  /** Returns the declaration to which an identifier refers, if the file contains it. */
  declarationOf(identifier: Node): Node | undefined {
    for (let scope = identifier.parent; scope !== undefined; scope = scope.parent) {
      const found = this.#declarationsOf(scope).get(identifier.text ?? '');
      if (found !== undefined) return found;
    }
    return undefined;
  }

  functionAround(node: Node): Node | undefined {
    return this.#parser.above(node, (each) => this.#parser.is(each, ...FUNCTIONS));
  }

  #isWatchCreation(node: Node | undefined): boolean {
    const { is } = this.#parser;
    let call = node;
    if (!is(call, 'CallExpression') || call.expression?.name?.text !== 'create') return false;
    while (is(call, 'CallExpression', 'PropertyAccessExpression')) {
      if (call.name?.text === 'watch') return this.kindOf(call.expression) === 'client';
      call = call.expression;
    }
    return false;
  }

  #kindOfType(type: Node | undefined): Kind | undefined {
    const { is } = this.#parser;
    if (is(type, 'UnionType')) {
      const kinds = (type.types ?? []).map((each) => this.#kindOfType(each)).filter((each) => each !== undefined);
      return kinds.length === 1 ? kinds[0] : undefined;
    }
    return is(type, 'TypeReference') ? KINDS[this.exportOf(type.typeName) ?? ''] : undefined;
  }

  #kindOfDeclaration(declaration: Node | undefined, name: string | undefined): Kind | undefined {
    const { is } = this.#parser;
    if (!is(declaration, 'VariableDeclaration', 'Parameter') || !is(declaration.name, 'Identifier')) return undefined;
    const { initializer, type } = declaration;
    const typed = this.#kindOfType(type);
    if (typed !== undefined || is(declaration, 'Parameter')) return typed;
    const assigned = this.#assignments.filter(
      ({ left }) => is(left, 'Identifier') && left.text === name && this.declarationOf(left) === declaration,
    );
    return this.#commonKind(declaration, [initializer, ...assigned.map(({ right }) => right)]);
  }

  /** Returns the kind of `this.name`. */
  #kindOfMember(access: Node): Kind | undefined {
    const { is } = this.#parser;
    const owner = this.#classAround(access);
    const name = access.name?.text;
    if (owner === undefined || name === undefined) return undefined;
    const members = owner.members ?? [];
    const constructors = members.filter((member) => is(member, 'Constructor'));
    const declared = [
      ...members.filter((member) => is(member, 'PropertyDeclaration') && member.name?.text === name),
      ...constructors.flatMap(({ parameters = [] }) =>
        parameters.filter((each) => each.name?.text === name && (each.modifiers ?? []).length > 0),
      ),
    ];
    const typed = declared.map(({ type }) => this.#kindOfType(type)).find((kind) => kind !== undefined);
    if (typed !== undefined) return typed;
    const assigned = this.#assignments.filter(
      ({ left }) =>
        is(left, 'PropertyAccessExpression') &&
        is(left.expression, 'ThisKeyword') &&
        left.name?.text === name &&
        this.#classAround(left) === owner,
    );
    const values = [...declared.map(({ initializer }) => initializer), ...assigned.map(({ right }) => right)];
    return this.#commonKind(declared[0] ?? assigned[0], values);
  }

  /** Returns the class to whose instance `this` refers at a node. */
  #classAround(node: Node): Node | undefined {
    const { is } = this.#parser;
    for (let each = node.parent; each !== undefined; each = each.parent) {
      if (is(each, ...CLASSES)) return each;
      if (is(each, 'FunctionDeclaration', 'FunctionExpression')) return undefined;
    }
    return undefined;
  }

  /** Returns the kind that all values have. Values that are null or undefined do not count. */
  #commonKind(owner: Node | undefined, values: readonly (Node | undefined)[]): Kind | undefined {
    if (owner === undefined || this.#open.has(owner)) return undefined;
    this.#open.add(owner);
    try {
      const given = values.filter((each) => each !== undefined && !this.#isNothing(each));
      const kinds = new Set(given.map((each) => this.kindOf(each)));
      return kinds.size === 1 ? [...kinds][0] : undefined;
    } finally {
      this.#open.delete(owner);
    }
  }

  #isNothing(node: Node): boolean {
    const { is } = this.#parser;
    return is(node, 'NullKeyword', 'VoidExpression') || (is(node, 'Identifier') && node.text === 'undefined');
  }

  #declarationsOf(scope: Node): ReadonlyMap<string, Node> {
    const known = this.#scopes.get(scope);
    if (known !== undefined) return known;
    const { is } = this.#parser;
    const found = new Map<string, Node>();
    const add = (declaration: Node | undefined): void => {
      const name = declaration?.name;
      if (declaration === undefined || name === undefined) return;
      if (is(name, 'Identifier')) found.set(name.text as string, declaration);
      else for (const element of name.elements ?? []) add(element);
    };
    for (const parameter of scope.parameters ?? []) add(parameter);
    if (is(scope, 'CatchClause')) add(scope.variableDeclaration);
    if (is(scope.initializer, 'VariableDeclarationList'))
      for (const each of scope.initializer.declarations ?? []) add(each);
    for (const statement of scope.statements ?? []) {
      for (const each of statement.declarationList?.declarations ?? []) add(each);
      if (is(statement, 'FunctionDeclaration', 'ClassDeclaration', 'EnumDeclaration', 'ImportEqualsDeclaration'))
        add(statement);
      const { importClause } = statement;
      if (importClause === undefined) continue;
      add(importClause);
      if (is(importClause.namedBindings, 'NamespaceImport')) add(importClause.namedBindings);
      for (const each of importClause.namedBindings?.elements ?? []) add(each);
    }
    this.#scopes.set(scope, found);
    return found;
  }
}
