/**
 * A node of a syntax tree of `typescript`. Which of the optional properties a node has depends on its kind. The package
 * `typescript` has a type for each kind, which code that looks at many kinds would have to convert.
 */
export interface Node {
  readonly kind: number;
  readonly pos: number;
  readonly end: number;
  readonly parent: Node;
  readonly text?: string;
  readonly name?: Node | undefined;
  readonly propertyName?: Node;
  readonly expression?: Node;
  readonly questionDotToken?: Node;
  readonly arguments?: readonly Node[];
  readonly initializer?: Node;
  readonly type?: Node | undefined;
  readonly types?: readonly Node[];
  readonly typeName?: Node;
  readonly left?: Node;
  readonly right?: Node;
  readonly operatorToken?: Node;
  readonly body?: Node | undefined;
  readonly parameters?: readonly Node[];
  readonly modifiers?: readonly Node[] | undefined;
  readonly members?: readonly Node[];
  readonly elements?: readonly Node[];
  readonly properties?: readonly Node[];
  readonly statements?: readonly Node[];
  readonly declarationList?: Node;
  readonly declarations?: readonly Node[];
  readonly moduleSpecifier?: Node;
  readonly moduleReference?: Node;
  readonly importClause?: Node;
  readonly namedBindings?: Node;
  readonly isTypeOnly?: boolean;
  readonly variableDeclaration?: Node;
  getStart(): number;
}

/** A node that exists and has a kind that the caller asked for. `isFound` exists only in the type. */
interface Found extends Node {
  readonly isFound: true;
}

export interface SourceFile extends Node {
  readonly text: string;
  readonly parseDiagnostics?: readonly unknown[];
}

/** A type of the type checker. */
export interface Type {
  readonly flags: number;
  /** The value of a literal type. */
  readonly value?: unknown;
  /** The members of a union or an intersection. */
  readonly types?: readonly Type[];
  getCallSignatures(): readonly Signature[];
}

interface Signature {
  readonly declaration?: Node;
  getReturnType(): Type;
}

/** A name with its declarations. */
export interface NameSymbol {
  readonly flags: number;
  readonly declarations?: readonly Node[];
}

/** The part of the type checker of `typescript` that the program uses. */
export interface Checker {
  getTypeAtLocation(node: Node): Type;
  getContextualType(node: Node): Type | undefined;
  getNonNullableType(type: Type): Type;
  getAwaitedType(type: Type): Type | undefined;
  getPropertyOfType(type: Type, name: string): NameSymbol | undefined;
  getTypeOfSymbol(symbol: NameSymbol): Type;
  getSymbolAtLocation(node: Node): NameSymbol | undefined;
  getShorthandAssignmentValueSymbol(node: Node | undefined): NameSymbol | undefined;
  getResolvedSignature(call: Node): Signature | undefined;
}

/** The options of the compiler. */
type Options = Readonly<Record<string, unknown>>;

/** The functions with which a compiler reads files. */
interface Host {
  fileExists(file: string): boolean;
  getSourceFile(file: string, target: unknown): SourceFile | undefined;
}

/** The part of the package `typescript` that the program uses. */
export interface TypeScript {
  readonly SyntaxKind: Readonly<Record<string, number | string>>;
  readonly TypeFlags: Readonly<Record<string, number | string>>;
  readonly ScriptTarget: { readonly Latest: number; readonly ESNext: number };
  readonly ModuleKind: { readonly ESNext: number };
  readonly ModuleResolutionKind: { readonly Bundler: number };
  createSourceFile(file: string, text: string, target: unknown, setParentNodes: boolean): SourceFile;
  forEachChild(node: Node, visit: (child: Node) => void): void;
  createCompilerHost(options: Options): Host;
  createProgram(given: { rootNames: readonly string[]; options: Options; host?: Host }): Program;
  findConfigFile(folder: string, exists: (file: string) => boolean): string | undefined;
  readConfigFile(file: string, read: (file: string) => string | undefined): { readonly config?: unknown };
  parseJsonConfigFileContent(config: unknown, host: unknown, folder: string): { readonly options: Options };
}

export interface Program {
  getSourceFile(file: string): SourceFile | undefined;
  getTypeChecker(): Checker;
}

/** The syntax trees of the package `typescript`. */
export class Parser {
  readonly #typescript: TypeScript;
  /** The names of the kinds of nodes, by their numbers. */
  readonly #kinds: readonly string[];
  /** Whether the node exists and has one of the kinds. */
  readonly is = (node: Node | undefined, ...kinds: readonly string[]): node is Found =>
    node !== undefined && kinds.includes(this.#kinds[node.kind] as string);

  constructor(typescript: TypeScript) {
    this.#typescript = typescript;
    const kinds: string[] = [];
    // A number has several names. The first one is the name of the kind, and the others are names such as `FirstNode`.
    for (const [name, number] of Object.entries(typescript.SyntaxKind))
      if (typeof number === 'number') kinds[number] ??= name;
    this.#kinds = kinds;
  }

  /** Whether the text is correct JavaScript or TypeScript. */
  isCorrect(file: string, text: string): boolean {
    const { createSourceFile, ScriptTarget } = this.#typescript;
    return (createSourceFile(file, text, ScriptTarget.Latest, false).parseDiagnostics ?? []).length === 0;
  }

  /** Whether the type has one of the flags. */
  hasFlag({ flags }: Type, ...names: readonly string[]): boolean {
    return names.some((name) => (flags & (this.#typescript.TypeFlags[name] as number)) !== 0);
  }

  /** Returns the children of a node in the order of the text. */
  children(node: Node): readonly Node[] {
    const found: Node[] = [];
    this.#typescript.forEachChild(node, (child) => void found.push(child));
    return found.sort((a, b) => a.pos - b.pos);
  }

  /** Returns the node and all nodes below it for which `test` is true. */
  all(node: Node, test: (node: Node) => boolean): readonly Node[] {
    const found: Node[] = [];
    const visit = (each: Node): void => {
      if (test(each)) found.push(each);
      this.#typescript.forEachChild(each, visit);
    };
    visit(node);
    return found;
  }

  /** Returns the nearest node above `node` for which `test` is true. */
  above(node: Node, test: (node: Node) => boolean): Node | undefined {
    for (let each = node.parent; each !== undefined; each = each.parent) if (test(each)) return each;
    return undefined;
  }
}
