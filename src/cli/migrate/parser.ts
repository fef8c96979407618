import * as nodeModule from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CliError, ExitCode } from '../exit-code.js';

// The types below describe the parts of the API of the package `typescript` that `migrate-etcd3` uses. This package
// does not depend on `typescript`, because its command-line program has no dependencies at run time.

/** A node of a syntax tree. Which of the optional properties a node has depends on its kind. */
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

interface TypeScript {
  readonly version: string;
  readonly SyntaxKind: Readonly<Record<string, number>>;
  readonly ScriptTarget: { readonly Latest: number };
  createSourceFile?(file: string, text: string, target: number, setParentNodes: boolean): SourceFile;
  forEachChild(node: Node, visit: (child: Node) => void): void;
}

/** A file that has been parsed. */
export interface Parsed {
  readonly text: string;
  readonly root: Node;
  /** Whether the text is not correct JavaScript or TypeScript. */
  readonly isWrong: boolean;
}

const INSTALL =
  'npx --package=typescript@5 --package=etcdwire etcdwire migrate-etcd3 PATH, or npm install --save-dev typescript@5';

/** The parser of the package `typescript`. */
export class Parser {
  readonly #typescript: TypeScript;
  /** Whether the node exists and has one of the kinds. */
  readonly is = (node: Node | undefined, ...kinds: readonly string[]): node is Found =>
    node !== undefined && kinds.some((kind) => this.#typescript.SyntaxKind[kind] === node.kind);

  constructor(typescript: TypeScript) {
    this.#typescript = typescript;
  }

  /**
   * Loads the package `typescript` of the project in `folder` or, if the project has none, the `typescript` that is
   * installed beside this package.
   *
   * @throws CliError if neither exists, or if the version has no parser that programs can call, such as version 7.
   */
  static load(folder: string): Parser {
    const found: string[] = [];
    for (const origin of [pathToFileURL(join(folder, 'package.json')).href, import.meta.url]) {
      try {
        const typescript = nodeModule.createRequire(origin)('typescript') as TypeScript;
        if (typescript.createSourceFile !== undefined) return new Parser(typescript);
        found.push(typescript.version);
      } catch {
        // This origin has no such package.
      }
    }
    const problem =
      found.length === 0
        ? 'migrate-etcd3 needs the package typescript, which is not installed'
        : `migrate-etcd3 needs a version of the package typescript with a parser for programs, and ${found[0]} has none`;
    throw new CliError(ExitCode.FAILED, `${problem}; allowed: versions 5 and 6; run ${INSTALL}`);
  }

  parse(file: string, text: string): Parsed {
    const { createSourceFile, ScriptTarget } = this.#typescript;
    const root = (createSourceFile as NonNullable<typeof createSourceFile>)(file, text, ScriptTarget.Latest, true);
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
