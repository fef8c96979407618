import protobuf from 'protobufjs';
import { camelCase } from './names.js';

/**
 * Returns the source of the module with the fields of all messages and the values of all enums, for code that works
 * with any message.
 */
export function descriptorsModule(namespaces: readonly protobuf.Namespace[]): string {
  const all = namespaces.flatMap(descendants);
  const messages = all.filter((each) => each instanceof protobuf.Type).map(messageRow);
  const enums = all.filter((each) => each instanceof protobuf.Enum).map(enumRow);
  return `import type { FieldDescriptor } from '../wire/index.js';

/** The fields of each message, by its full name. */
export const messageFields: Readonly<Record<string, readonly FieldDescriptor[]>> = {
${messages.join('\n')}
};

/** The numbers of each enum's values, by its full name. */
export const enumValues: Readonly<Record<string, Readonly<Record<string, number>>>> = {
${enums.join('\n')}
};
`;
}

/** Returns the source of the module with the comments of each message, field, enum, value, service and RPC. */
export function commentsModule(namespaces: readonly protobuf.Namespace[]): string {
  const rows = namespaces
    .flatMap(descendants)
    .flatMap((each) => [
      commentRow(fullName(each), each.comment),
      ...(each instanceof protobuf.Type
        ? each.fieldsArray.map((field) => commentRow(fullName(field), field.comment))
        : []),
      ...(each instanceof protobuf.Service
        ? each.methodsArray.map((method) => commentRow(fullName(method), method.comment))
        : []),
      ...(each instanceof protobuf.Enum
        ? Object.keys(each.values).map((name) => commentRow(`${fullName(each)}.${name}`, each.comments[name]))
        : []),
    ]);
  return `/** The comments of the .proto files, by full name. */
export const comments: Readonly<Record<string, string>> = {
${rows.join('\n')}
};
`;
}

export function descendants(parent: protobuf.NamespaceBase): protobuf.ReflectionObject[] {
  return parent.nestedArray.flatMap((each) =>
    each instanceof protobuf.Namespace ? [each, ...descendants(each)] : [each],
  );
}

function messageRow(type: protobuf.ReflectionObject): string {
  const fields = [...(type as protobuf.Type).fieldsArray].sort((a, b) => a.id - b.id).map(fieldRow);
  return `'${fullName(type)}': [${fields.join('\n')}],`;
}

function fieldRow(field: protobuf.Field): string {
  const { partOf, resolvedType } = field;
  const kind = resolvedType instanceof protobuf.Enum ? 'enum' : 'message';
  const type = resolvedType === null ? `scalar: '${field.type}'` : `${kind}: '${fullName(resolvedType)}'`;
  const repeated = field.repeated ? ', repeated: true' : '';
  const oneof = partOf === null ? '' : `, oneof: '${camelCase(partOf.name)}'`;
  return `{ number: ${field.id}, name: '${field.name}', property: '${camelCase(field.name)}', type: { ${type} }${repeated}${oneof} },`;
}

function enumRow(type: protobuf.ReflectionObject): string {
  const values = Object.entries((type as protobuf.Enum).values).map(([name, value]) => `${name}: ${value},`);
  return `'${fullName(type)}': { ${values.join(' ')} },`;
}

function commentRow(name: string, comment: string | null | undefined): string {
  return comment ? `'${name}': ${JSON.stringify(comment)},` : '';
}

function fullName(of: protobuf.ReflectionObject): string {
  return of.fullName.slice(1);
}
