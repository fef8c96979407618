import type { Checker, NameSymbol, Node, Parser, SourceFile, Type } from './parser.js';

/** What an expression is. The property `' kind'` in the declaration of etcd3 contains this name. */
export type Kind = 'client' | 'options' | 'transaction' | ObjectKind;
/** The objects that a client returns, and whose methods have no namesakes in etcdwire. */
export type ObjectKind = 'lease' | 'watcher' | 'lock' | 'election' | 'campaign' | 'observer';

const FUNCTIONS = [
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunction',
  'MethodDeclaration',
  'Constructor',
  'GetAccessor',
  'SetAccessor',
];
/** Expressions with the value of another expression. */
const WRAPPERS = ['ParenthesizedExpression', 'NonNullExpression', 'AsExpression', 'SatisfiesExpression'];

/** Nodes of the program, by the declaration of the function or the variable. */
interface Index {
  /** The calls of a function. */
  readonly called: ReadonlyMap<Node, readonly Node[]>;
  /** The values that the program assigns to a variable after its declaration. */
  readonly assigned: ReadonlyMap<Node, readonly Node[]>;
}

/** Finds out which names and expressions of a program refer to something from etcd3. */
export class Names {
  readonly #parser: Parser;
  readonly #checker: Checker;
  readonly #roots: readonly SourceFile[];
  /** The types of the expressions whose declared type is `any`. */
  readonly #followed = new Map<Node, readonly Type[]>();
  #indexed: Index | undefined;
  #isRenewing: boolean | undefined;

  /** `roots` are the files of the program. */
  constructor(parser: Parser, checker: Checker, roots: readonly SourceFile[]) {
    this.#parser = parser;
    this.#checker = checker;
    this.#roots = roots;
  }

  /** Returns the statements and expressions in a file that load etcd3. */
  loads(root: Node): readonly Node[] {
    const { is } = this.#parser;
    return this.#parser.all(root, (node) => {
      if (is(node, 'ImportDeclaration', 'ExportDeclaration')) return isEtcd3(node.moduleSpecifier);
      if (is(node, 'ExternalModuleReference')) return isEtcd3(node.expression);
      return this.isRequire(node);
    });
  }

  isRequire(node: Node | undefined): boolean {
    const { is } = this.#parser;
    if (!is(node, 'CallExpression') || node.expression?.text !== 'require') return false;
    return is(node.arguments?.[0], 'StringLiteral') && isEtcd3(node.arguments[0]);
  }

  /** Returns the name of the export of etcd3 to which an identifier, `module.name` or a type refers. */
  exportOf(node: Node | undefined): string | undefined {
    const { is } = this.#parser;
    if (is(node, 'PropertyAccessExpression', 'QualifiedName')) {
      const [object, name] = node.expression === undefined ? [node.left, node.right] : [node.expression, node.name];
      return is(object, 'Identifier') && this.#isModule(this.declarationOf(object)) ? name?.text : undefined;
    }
    const declaration = is(node, 'Identifier') ? this.declarationOf(node) : undefined;
    const isLoaded = is(declaration, 'ImportSpecifier')
      ? isEtcd3(declaration.parent.parent.parent.moduleSpecifier)
      : is(declaration, 'BindingElement') && this.isRequire(declaration.parent.parent.initializer);
    return isLoaded ? (declaration?.propertyName ?? declaration?.name)?.text : undefined;
  }

  /** Whether the declaration binds all of etcd3 to one name. */
  #isModule(declaration: Node | undefined): boolean {
    const { is } = this.#parser;
    if (is(declaration, 'NamespaceImport')) return isEtcd3(declaration.parent.parent.moduleSpecifier);
    if (is(declaration, 'ImportClause')) return isEtcd3(declaration.parent.moduleSpecifier);
    if (is(declaration, 'ImportEqualsDeclaration')) return isEtcd3(declaration.moduleReference?.expression);
    return is(declaration, 'VariableDeclaration') && this.isRequire(declaration.initializer);
  }

  /** Returns the kind of an expression. Undefined if its possible values have several kinds, or none. */
  kindOf(node: Node | undefined): Kind | undefined {
    if (node === undefined) return undefined;
    const types = this.#typesOf(node).map((type) => this.#checker.getNonNullableType(type));
    const given = types.filter((type) => !this.#parser.hasFlag(type, 'Never'));
    const kinds = new Set(given.map((type) => this.#kindOfType(type)));
    return kinds.size === 1 ? [...kinds][0] : undefined;
  }

  /** Whether the code around an expression declares that it expects this kind. */
  isExpected(node: Node, kind: Kind): boolean {
    const type = this.#checker.getContextualType(node);
    return type !== undefined && (type.types ?? [type]).some((each) => this.#kindOfType(each) === kind);
  }

  /**
   * Whether an expression of this kind goes to code that expects another type, and whose use of it `kindOf` does not
   * know.
   */
  isLost(node: Node, kind: Kind): boolean {
    const type = this.#checker.getContextualType(node);
    if (type === undefined || this.isExpected(node, kind)) return false;
    const call = this.#parser.above(node, (each) => this.#parser.is(each, 'CallExpression', 'NewExpression'));
    const called = call === undefined ? undefined : this.#checker.getResolvedSignature(call)?.declaration;
    const isTyped = called?.parameters?.some((each) => each.type !== undefined);
    return !this.#isAny(type) || called === undefined || this.#fileOf(called) === undefined || isTyped === true;
  }

  /** Whether every possible type of the expression, apart from null and undefined, has one of the flags. */
  hasType(node: Node, ...flags: readonly string[]): boolean {
    const type = this.#checker.getNonNullableType(this.#checker.getTypeAtLocation(node));
    return (this.#isUnion(type) ? (type.types ?? []) : [type]).every((each) => this.#parser.hasFlag(each, ...flags));
  }

  /** Returns the declaration to which an identifier refers. */
  declarationOf(identifier: Node): Node | undefined {
    return this.#symbolOf(identifier)?.declarations?.[0];
  }

  /** Whether etcd3 renews every lease of the program. */
  isRenewing(): boolean {
    this.#isRenewing ??= !this.#roots.some(({ text }) => text.includes('autoKeepAlive'));
    return this.#isRenewing;
  }

  functionAround(node: Node): Node | undefined {
    return this.#parser.above(node, (each) => this.#parser.is(each, ...FUNCTIONS));
  }

  #symbolOf(identifier: Node): NameSymbol | undefined {
    return this.#parser.is(identifier.parent, 'ShorthandPropertyAssignment')
      ? this.#checker.getShorthandAssignmentValueSymbol(identifier.parent)
      : this.#checker.getSymbolAtLocation(identifier);
  }

  #isUnion(type: Type): boolean {
    return this.#parser.hasFlag(type, 'Union');
  }

  #isAny(type: Type): boolean {
    return this.#parser.hasFlag(type, 'Any');
  }

  #kindOfType(type: Type): Kind | undefined {
    const property = this.#checker.getPropertyOfType(this.#checker.getNonNullableType(type), ' kind');
    if (property === undefined) return undefined;
    return this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(property)).value as Kind | undefined;
  }

  /** Returns the possible types of an expression. Follows the values of variables and parameters of the type `any`. */
  #typesOf(node: Node | undefined): readonly Type[] {
    if (node === undefined) return [];
    const type = this.#checker.getTypeAtLocation(node);
    if (!this.#isAny(type)) return [type];
    const known = this.#followed.get(node);
    if (known !== undefined) return known;
    // A value that depends on itself has no other types.
    this.#followed.set(node, []);
    const types = this.#typesOfValues(node);
    this.#followed.set(node, types);
    return types;
  }

  #typesOfValues(node: Node): readonly Type[] {
    const { is } = this.#parser;
    if (is(node, ...WRAPPERS)) return this.#typesOf(node.expression);
    if (is(node, 'AwaitExpression')) {
      const { expression } = node;
      if (is(expression, 'CallExpression')) return this.#typesOfResult(expression, true);
      return this.#typesOf(expression).map((type) => this.#awaited(type));
    }
    if (is(node, 'CallExpression')) return this.#typesOfResult(node, false);
    // An object is of the type any if it spreads an object of the type any.
    if (is(node, 'ObjectLiteralExpression'))
      return (node.properties ?? [])
        .filter((each) => is(each, 'SpreadAssignment'))
        .flatMap((each) => this.#typesOf(each.expression));
    if (!is(node, 'Identifier', 'PropertyAccessExpression')) return [];
    const symbol = this.#symbolOf(node.name ?? node);
    if (symbol !== undefined) return this.#typesOfSymbol(symbol);
    return this.#typesOfProperty(this.#typesOf(node.expression), node.name?.text);
  }

  #typesOfProperty(objects: readonly Type[], name: string | undefined): readonly Type[] {
    return objects.flatMap((type) => {
      const property = name === undefined ? undefined : this.#checker.getPropertyOfType(type, name);
      return property === undefined ? [] : this.#typesOfSymbol(property);
    });
  }

  #typesOfSymbol(symbol: NameSymbol): readonly Type[] {
    const type = this.#checker.getTypeOfSymbol(symbol);
    return this.#isAny(type) ? (symbol.declarations ?? []).flatMap((each) => this.#typesOfDeclaration(each)) : [type];
  }

  #typesOfDeclaration(declaration: Node): readonly Type[] {
    const { is } = this.#parser;
    const { parent, name } = declaration;
    if (declaration.type !== undefined) return [];
    if (is(declaration, 'Parameter')) return this.#argumentsOf(declaration).flatMap((each) => this.#typesOf(each));
    if (is(declaration, 'BindingElement'))
      return this.#typesOfProperty(this.#typesOfDeclaration(parent.parent), (declaration.propertyName ?? name)?.text);
    if (is(declaration, 'ShorthandPropertyAssignment')) return this.#typesOf(name);
    const assignment = is(parent, 'BinaryExpression') ? parent : declaration;
    const values = [declaration.initializer ?? assignment.right, ...(this.#index().assigned.get(declaration) ?? [])];
    return values.flatMap((each) => this.#typesOf(each));
  }

  /** Returns the file of the program that contains the node. */
  #fileOf(node: Node): Node | undefined {
    return this.#parser.above(node, (each) => this.#roots.includes(each as SourceFile));
  }

  /** Returns the types of what a call returns. With `isAwaited`, returns the types of what its promise resolves with. */
  #typesOfResult(call: Node, isAwaited: boolean): readonly Type[] {
    return this.#typesOf(call.expression).flatMap((type) => {
      const [signature] = type.getCallSignatures();
      if (signature === undefined) return [];
      const returned = signature.getReturnType();
      const result = isAwaited ? this.#awaited(returned) : returned;
      const { declaration } = signature;
      if (!this.#isAny(result) || declaration === undefined || declaration.type !== undefined) return [result];
      if (!isAwaited && this.isAsync(declaration)) return [];
      const types = this.#returnsOf(declaration).flatMap((each) => this.#typesOf(each));
      return isAwaited ? types.map((each) => this.#awaited(each)) : types;
    });
  }

  #awaited(type: Type): Type {
    return this.#checker.getAwaitedType(type) ?? type;
  }

  isAsync({ modifiers = [] }: Node): boolean {
    return modifiers.some((each) => this.#parser.is(each, 'AsyncKeyword'));
  }

  /** Returns the expressions whose values a function returns. */
  #returnsOf(declaration: Node): readonly (Node | undefined)[] {
    const { is } = this.#parser;
    const { body } = declaration;
    if (body === undefined) return [];
    if (!is(body, 'Block')) return [body];
    const isReturn = (node: Node): boolean => is(node, 'ReturnStatement') && this.functionAround(node) === declaration;
    return this.#parser.all(body, isReturn).map(({ expression }) => expression);
  }

  /** Returns the arguments that the calls of a function pass for a parameter. */
  #argumentsOf(parameter: Node): readonly (Node | undefined)[] {
    const index = parameter.parent.parameters?.indexOf(parameter) ?? -1;
    return (this.#index().called.get(parameter.parent) ?? []).map((call) => call.arguments?.[index]);
  }

  #index(): Index {
    if (this.#indexed !== undefined) return this.#indexed;
    const { is } = this.#parser;
    const found = { called: new Map<Node, Node[]>(), assigned: new Map<Node, Node[]>() };
    const add = (map: Map<Node, Node[]>, declaration: Node | undefined, node: Node | undefined): void => {
      if (declaration === undefined || node === undefined) return;
      const nodes = map.get(declaration);
      if (nodes === undefined) map.set(declaration, [node]);
      else nodes.push(node);
    };
    const visit = (node: Node): boolean => {
      if (is(node, 'CallExpression', 'NewExpression'))
        add(found.called, this.#checker.getResolvedSignature(node)?.declaration, node);
      const isAssignment = is(node.operatorToken, 'EqualsToken', 'QuestionQuestionEqualsToken', 'BarBarEqualsToken');
      if (isAssignment && is(node.left, 'Identifier')) add(found.assigned, this.declarationOf(node.left), node.right);
      return false;
    };
    for (const root of this.#roots) this.#parser.all(root, visit);
    this.#indexed = found;
    return found;
  }
}

function isEtcd3(specifier: Node | undefined): boolean {
  return specifier?.text === 'etcd3' || specifier?.text?.startsWith('etcd3/') === true;
}
