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
  readonly name?: Node;
  readonly propertyName?: Node;
  readonly expression?: Node;
  readonly questionDotToken?: Node;
  readonly arguments?: readonly Node[];
  readonly initializer?: Node;
  readonly type?: Node;
  readonly types?: readonly Node[];
  readonly typeName?: Node;
  readonly left?: Node;
  readonly right?: Node;
  readonly operatorToken?: Node;
  readonly body?: Node;
  readonly parameters?: readonly Node[];
  readonly modifiers?: readonly Node[];
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

interface SourceFile extends Node {
  readonly parseDiagnostics?: readonly unknown[];
}

/** The part of the package `typescript` that the parser uses. */
export interface TypeScript {
  readonly SyntaxKind: Readonly<Record<string, number | string>>;
  readonly ScriptTarget: { readonly Latest: number };
  createSourceFile(file: string, text: string, target: number, setParentNodes: boolean): SourceFile;
  forEachChild(node: Node, visit: (child: Node) => void): void;
}

/** A file that has been parsed. */
export interface Parsed {
  readonly text: string;
  readonly root: Node;
  /** Whether the text is not correct JavaScript or TypeScript. */
  readonly isWrong: boolean;
}

/** The parser of the package `typescript`. */
export class Parser {
  readonly #typescript: TypeScript;
  /** Whether the node exists and has one of the kinds. */
  readonly is = (node: Node | undefined, ...kinds: readonly string[]): node is Found =>
    node !== undefined && kinds.some((kind) => this.#typescript.SyntaxKind[kind] === node.kind);

  constructor(typescript: TypeScript) {
    this.#typescript = typescript;
  }

  parse(file: string, text: string): Parsed {
    const { createSourceFile, ScriptTarget } = this.#typescript;
    const root = createSourceFile(file, text, ScriptTarget.Latest, true);
    return { text, root, isWrong: (root.parseDiagnostics ?? []).length > 0 };
  }

  /** Returns the children of a node in the order of the text. */
  children(node: Node): readonly Node[] {
    const found: Node[] = [];
    this.#typescript.forEachChild(node, (child) => void found.push(child));
    return found.sort((a, b) => a.pos - b.pos);
  }

  /** Returns the node and all nodes below it for which `test` is true. */
  all(node: Node, test: (node: Node) => boolean): readonly Node[] {
    const found = test(node) ? [node] : [];
    for (const child of this.children(node)) found.push(...this.all(child, test));
    return found;
  }

  /** Returns the nearest node above `node` for which `test` is true. */
  above(node: Node, test: (node: Node) => boolean): Node | undefined {
    for (let each = node.parent; each !== undefined; each = each.parent) if (test(each)) return each;
    return undefined;
  }
}
