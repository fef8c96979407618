import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { commentsModule, descendants, descriptorsModule } from './generate/descriptors.js';
import { camelCase, doc, localName } from './generate/names.js';

// Writes src/gen/ from proto/: the type and codec of each message, the methods of each service, the enums, and
// descriptors for code that works with any message. Writes the comments of the .proto files for the command line.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const out = join(root, 'src/gen');
const PROTO_FILES = [
  'mvccpb/kv.proto',
  'authpb/auth.proto',
  'etcdserverpb/rpc.proto',
  'v3lockpb/v3lock.proto',
  'v3electionpb/v3election.proto',
];

interface ScalarKind {
  readonly ts: string;
  readonly zero: string;
  /** Name of the methods of `Reader` and `Writer` that read and write this type. */
  readonly io: string;
  readonly wireType: 0 | 2;
  /** The letter of this type in a table; see src/wire/protobuf/table-codec.ts. */
  readonly letter: string;
}

const SCALARS: Record<string, ScalarKind> = {
  bool: { ts: 'boolean', zero: 'false', io: 'bool', wireType: 0, letter: 'b' },
  bytes: { ts: 'Uint8Array', zero: 'NO_BYTES', io: 'bytes', wireType: 2, letter: 'y' },
  int64: { ts: 'bigint', zero: '0n', io: 'int64', wireType: 0, letter: 'i' },
  string: { ts: 'string', zero: "''", io: 'string', wireType: 2, letter: 's' },
  uint32: { ts: 'number', zero: '0', io: 'uint32', wireType: 0, letter: 'n' },
  uint64: { ts: 'bigint', zero: '0n', io: 'uint64', wireType: 0, letter: 'u' },
};
/**
 * The messages that programs send or receive often. They get generated code. All other messages get tables, which take
 * less space; see src/wire/protobuf/table-codec.ts.
 */
const FREQUENT: ReadonlySet<string> = new Set(
  [
    'KeyValue Event ResponseHeader',
    'RangeRequest RangeResponse PutRequest PutResponse DeleteRangeRequest DeleteRangeResponse',
    'RequestOp ResponseOp Compare TxnRequest TxnResponse',
    'WatchRequest WatchResponse',
  ].flatMap((names) => names.split(' ')),
);
const ENUM_IO: Omit<ScalarKind, 'ts' | 'zero'> = { io: 'int32', wireType: 0, letter: 'e' };

const tree = new protobuf.Root();
tree.resolvePath = (_origin, target) => join(root, 'proto', target);
tree.loadSync(PROTO_FILES, { keepCase: true, alternateCommentMode: true });
tree.resolveAll();

rmSync(out, { recursive: true, force: true });
for (const file of PROTO_FILES) write(file.replace('.proto', '.ts'), messagesModule(file));
writeMethods();
write('enums.ts', enumsModule());
const namespaces = PROTO_FILES.map(namespaceOf);
write(
  'descriptors.ts',
  `${header('')}\n\n${descriptorsModule(namespaces, (scalar) => (SCALARS[scalar] as ScalarKind).letter)}`,
);
const comments = join(root, 'packages/cli/src/comments.ts');
writeFileSync(comments, `${header('')}\n\n${commentsModule(namespaces)}`);
execFileSync(join(root, 'node_modules/.bin/biome'), ['check', '--write', '--log-level=error', out, comments], {
  stdio: 'inherit',
});

function write(path: string, text: string): void {
  mkdirSync(dirname(join(out, path)), { recursive: true });
  writeFileSync(join(out, path), text);
}

function messagesModule(file: string): string {
  const imports = new Map<string, Set<string>>();
  const body = definitions(namespaceOf(file), file, imports).join('\n');
  const local = [...imports].map(([from, names]) => {
    const path = `${'../'.repeat(file.split('/').length - 1)}${from.replace('.proto', '.js')}`;
    return `import { ${[...names].sort().join(', ')} } from '${path}';`;
  });
  const noBytes = body.includes('NO_BYTES') ? [`import { NO_BYTES } from '../../base/index.js';`] : [];
  const codec = body.includes('tableCodec(')
    ? `import { type Codec, tableCodec } from '../../wire/index.js';`
    : `import type { Codec } from '../../wire/index.js';`;
  return `${header(file)}\n\n${[...noBytes, codec, ...local].join('\n')}\n\n${body}`;
}

function header(file: string): string {
  return `// Written by scripts/generate.ts from proto/${file}. Do not edit.`;
}

function namespaceOf(file: string): protobuf.Namespace {
  const namespace = tree.lookup(dirname(file));
  if (!(namespace instanceof protobuf.Namespace)) throw new Error(`proto/${file}: expected package ${dirname(file)}`);
  return namespace;
}

function definitions(parent: protobuf.Namespace, file: string, imports: Map<string, Set<string>>): string[] {
  return parent.nestedArray.flatMap((entry) => {
    if (entry instanceof protobuf.Enum) return [enumDefinition(entry)];
    if (entry instanceof protobuf.Type)
      return [...definitions(entry, file, imports), messageDefinition(entry, file, imports)];
    return [];
  });
}

function enumDefinition(type: protobuf.Enum): string {
  const name = localName(type);
  const rows = Object.entries(type.values).map(([key, value]) => `${doc(type.comments[key])}${key}: ${value},`);
  const comment = doc(type.comment);
  return `${comment}export const ${name} = {\n${rows.join('\n')}\n} as const;\n${comment}export type ${name} = (typeof ${name})[keyof typeof ${name}];\n`;
}

function enumsModule(): string {
  const imports: string[] = [];
  const all: string[] = [];
  for (const file of PROTO_FILES) {
    const enums = descendants(namespaceOf(file)).filter((entry) => entry instanceof protobuf.Enum);
    const names = enums.map(localName).sort();
    if (names.length > 0) imports.push(`import { ${names.join(', ')} } from './${file.replace('.proto', '.js')}';`);
    all.push(...names);
  }
  return `${header('')}

${imports.join('\n')}

/**
 * The values of the enums in the messages of \`Client.raw\`, by the name of the enum.
 *
 * @example
 * \`\`\`ts
 * const { ASCEND } = rawEnums.SortOrder;
 * await etcd.raw.kv.range({ key, rangeEnd, sortOrder: ASCEND, sortTarget: rawEnums.SortTarget.CREATE });
 * \`\`\`
 */
export const rawEnums = { ${all.sort().join(', ')} } as const;
`;
}

function messageDefinition(type: protobuf.Type, file: string, imports: Map<string, Set<string>>): string {
  const name = localName(type);
  const use = (other: protobuf.ReflectionObject): string => reference(other, file, imports);
  const members = membersOf(type);
  const fields = members.map(
    (member) => `${doc(member.comment)}${camelCase(member.name)}: ${memberType(member, use)};`,
  );
  const empty = members.length === 0;
  const definition = `${doc(type.comment)}${
    empty ? `export type ${name} = Record<never, never>;` : `export interface ${name} {\n${fields.join('\n')}\n}`
  }`;
  if (!FREQUENT.has(name)) {
    const nested = members.filter((member) => 'resolvedType' in member && member.resolvedType instanceof protobuf.Type);
    const codecs = nested.map((member) => use((member as protobuf.Field).resolvedType as protobuf.Type));
    const args = [
      `'${type.fullName.slice(1).replace('etcdserverpb.', '')}'`,
      ...(empty ? [] : [`'${members.map(tableField).join(' ')}'`]),
      ...(codecs.length === 0 ? [] : [`() => [${codecs.join(', ')}]`]),
    ];
    return `${definition}\n\nexport const ${name}: Codec<${name}> = /* @__PURE__ */ tableCodec(${args.join(', ')});\n`;
  }
  const zeros = members.map((member) => `${camelCase(member.name)}: ${zeroOf(member)},`);
  const writes = members.map((member) => writeMember(member, use));
  const reads = members.flatMap((member) => readMember(member, use));
  return `${definition}

export const ${name}: Codec<${name}> = {
  typeName: '${type.fullName.slice(1)}',
  create: () => ({ ${zeros.join('\n')} }),
  write(writer, message) {
    ${writes.join('\n')}
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {\n${reads.join('\n')}\ndefault: reader.skip(tag); }
    }
  },
};
`;
}

/** Returns the text of a field in a table; see `tableCodec`. */
function tableField(member: Member): string {
  if (member instanceof protobuf.OneOf) throw new Error(`${member.fullName}: a table cannot have a oneof`);
  const { resolvedType, repeated, id, name } = member;
  const letter = resolvedType instanceof protobuf.Type ? 'm' : ioOf(member).letter;
  return `${letter}${repeated ? '*' : ''}${id}${camelCase(name)}`;
}

type Member = protobuf.Field | protobuf.OneOf;
type Use = (other: protobuf.ReflectionObject) => string;

/** The fields of a message in the order of their numbers. A oneof appears once, at the position of its first field. */
function membersOf(type: protobuf.Type): Member[] {
  const fields = [...type.fieldsArray].sort((a, b) => a.id - b.id);
  return [...new Set(fields.map((field) => field.partOf ?? field))];
}

function memberType(member: Member, use: Use): string {
  if (member instanceof protobuf.OneOf) {
    const cases = member.fieldsArray.map(
      (field) => `{ case: '${camelCase(field.name)}'; value: ${valueType(field, use)} }`,
    );
    return `${cases.join(' | ')} | undefined`;
  }
  const type = valueType(member, use);
  if (member.repeated) return `${type}[]`;
  return member.resolvedType instanceof protobuf.Type ? `${type} | undefined` : type;
}

function valueType(field: protobuf.Field, use: Use): string {
  return field.resolvedType === null ? scalar(field).ts : use(field.resolvedType);
}

function zeroOf(member: Member): string {
  if (member instanceof protobuf.OneOf || member.resolvedType instanceof protobuf.Type) {
    return member instanceof protobuf.Field && member.repeated ? '[]' : 'undefined';
  }
  if (member.repeated) return '[]';
  return member.resolvedType instanceof protobuf.Enum ? '0' : scalar(member).zero;
}

function writeMember(member: Member, use: Use): string {
  const name = camelCase(member.name);
  if (member instanceof protobuf.OneOf) {
    const cases = member.fieldsArray.map(
      (field) => `case '${camelCase(field.name)}': ${writeValue(field, `message.${name}.value`, use)} break;`,
    );
    const unknown = `default: if (message.${name} !== undefined) writer.unknownCase('${name}');`;
    return `switch (message.${name}?.case) { ${cases.join('\n')}\n${unknown} }`;
  }
  const value = `message.${name}`;
  if (member.resolvedType instanceof protobuf.Type) {
    const codec = use(member.resolvedType);
    return `writer.${member.repeated ? 'messageFields' : 'messageField'}(${tagOf(member.id, 2)}, ${codec}, ${value});`;
  }
  const { io, wireType } = ioOf(member);
  if (!member.repeated) return `writer.${io}Field(${tagOf(member.id, wireType)}, ${value});`;
  if (wireType === 2) return `writer.${io}Fields(${tagOf(member.id, 2)}, ${value});`;
  return `writer.packedField(${tagOf(member.id, 2)}, ${value}, (element) => writer.${io}(element));`;
}

function writeValue(field: protobuf.Field, value: string, use: Use): string {
  if (field.resolvedType instanceof protobuf.Type) {
    return `writer.tag(${tagOf(field.id, 2)});\nwriter.message(${use(field.resolvedType)}, ${value});`;
  }
  const { io, wireType } = ioOf(field);
  return `writer.tag(${tagOf(field.id, wireType)});\nwriter.${io}(${value});`;
}

function readMember(member: Member, use: Use): string[] {
  const name = camelCase(member.name);
  const target = `message.${name}`;
  if (member instanceof protobuf.OneOf) {
    return member.fieldsArray.map((field) => {
      const kind = camelCase(field.name);
      if (!(field.resolvedType instanceof protobuf.Type)) {
        return `case ${tagOf(field.id, ioOf(field).wireType)}: ${target} = { case: '${kind}', value: reader.${ioOf(field).io}() }; break;`;
      }
      const before = `${target}?.case === '${kind}' ? ${target}.value : undefined`;
      return `case ${tagOf(field.id, 2)}: ${target} = { case: '${kind}', value: reader.message(${use(field.resolvedType)}, ${before}) }; break;`;
    });
  }
  if (member.resolvedType instanceof protobuf.Type) {
    const codec = use(member.resolvedType);
    const read = member.repeated
      ? `${target}.push(reader.message(${codec}))`
      : `${target} = reader.message(${codec}, ${target})`;
    return [`case ${tagOf(member.id, 2)}: ${read}; break;`];
  }
  const { io, wireType } = ioOf(member);
  const cast = member.resolvedType instanceof protobuf.Enum ? ` as ${use(member.resolvedType)}` : '';
  if (!member.repeated) return [`case ${tagOf(member.id, wireType)}: ${target} = reader.${io}()${cast}; break;`];
  const one = `case ${tagOf(member.id, wireType)}: ${target}.push(reader.${io}()${cast}); break;`;
  if (wireType === 2) return [one];
  return [one, `case ${tagOf(member.id, 2)}: reader.packed(${target}, () => reader.${io}()${cast}); break;`];
}

function tagOf(id: number, wireType: 0 | 2): number {
  return (id << 3) | wireType;
}

function ioOf(field: protobuf.Field): Omit<ScalarKind, 'ts' | 'zero'> {
  return field.resolvedType instanceof protobuf.Enum ? ENUM_IO : scalar(field);
}

function scalar(field: protobuf.Field): ScalarKind {
  const kind = SCALARS[field.type];
  if (kind === undefined || field.map) {
    throw new Error(
      `${field.fullName}: ${field.map ? 'a map' : field.type} is not supported yet; add support to scripts/generate.ts`,
    );
  }
  return kind;
}

/** Returns the name of a type, for use in the module of `file`. Adds an import if another file defines the type. */
function reference(type: protobuf.ReflectionObject, file: string, imports: Map<string, Set<string>>): string {
  const name = localName(type);
  const from = PROTO_FILES.find((candidate) => type.fullName.startsWith(`.${dirname(candidate)}.`));
  if (from === undefined) throw new Error(`${type.fullName}: defined in none of ${PROTO_FILES.join(', ')}`);
  if (from !== file) imports.set(from, (imports.get(from) ?? new Set()).add(name));
  return name;
}

/** Writes one module for each service, so that bundlers can leave out every method that a program never calls. */
function writeMethods(): void {
  const services = PROTO_FILES.flatMap((file) =>
    namespaceOf(file).nestedArray.filter((entry) => entry instanceof protobuf.Service),
  ).map((service) => {
    const name = camelCase(service.name === 'KV' ? 'kv' : service.name);
    write(`methods/${name}.ts`, methodsModule(service));
    return { name, service };
  });
  const imports = services.map(({ name }) => `import * as ${name} from './methods/${name}.js';`);
  const rows = services.map(({ name, service }) => {
    const properties = service.methodsArray.map((method) => {
      const property = camelCase(method.name);
      return `${doc(method.comment)}${property}: ${name}.${property},`;
    });
    return `${doc(service.comment)}${name}: {\n${properties.join('\n')}\n},`;
  });
  const list = services.flatMap(({ name, service }) =>
    service.methodsArray.map((method) => `${name}.${camelCase(method.name)},`),
  );
  write(
    'methods.ts',
    `${header('')}

${imports.join('\n')}

/** The RPCs of each service. A module that needs few RPCs imports the module of their service instead. */
export const methods = {
${rows.join('\n')}
} as const;

/** All RPCs. The list is shorter than \`methods\` in a bundle, because it does not contain the names again. */
export const methodList = [
${list.join('\n')}
] as const;

/** The gRPC path of an RPC, such as \`/etcdserverpb.KV/Put\`. */
export type MethodPath = {
  [Service in keyof typeof methods]: (typeof methods)[Service][keyof (typeof methods)[Service]] extends {
    readonly path: infer Path;
  }
    ? Path
    : never;
}[keyof typeof methods];
`,
  );
}

function methodsModule(service: protobuf.Service): string {
  const imports = new Map<string, Set<string>>();
  const rows = service.methodsArray.map(
    (method) => `export const ${camelCase(method.name)} = ${methodRow(service, method, imports)};`,
  );
  const local = [...imports].map(
    ([from, names]) => `import { ${[...names].sort().join(', ')} } from '../${from.replace('.proto', '.js')}';`,
  );
  return `${header('')}

import type { Method } from '../../wire/index.js';
${local.join('\n')}

${rows.join('\n\n')}
`;
}

function methodRow(service: protobuf.Service, method: protobuf.Method, imports: Map<string, Set<string>>): string {
  method.resolve();
  if (method.resolvedRequestType === null || method.resolvedResponseType === null)
    throw new Error(`${method.fullName}: unresolved types`);
  const request = reference(method.resolvedRequestType, '', imports);
  const response = reference(method.resolvedResponseType, '', imports);
  const kind = method.requestStream ? 'bidi-streaming' : method.responseStream ? 'server-streaming' : 'unary';
  const repeatable = ['NO_SIDE_EFFECTS', 'IDEMPOTENT'].includes(method.options?.idempotency_level);
  return `{
    path: '/${service.fullName.slice(1)}/${method.name}',
    kind: '${kind}',
    request: ${request},
    response: ${response},
${repeatable ? '    repeatable: true,\n' : ''}  } as const satisfies Method<${request}, ${response}, '${kind}'>`;
}
