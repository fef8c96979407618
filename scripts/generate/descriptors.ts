import protobuf from 'protobufjs';
import { camelCase } from './names.js';

/**
 * Returns the source of the module with the fields of all messages and the values of all enums, for code that works
 * with any message.
 */
export function descriptorsModule(
  namespaces: readonly protobuf.Namespace[],
  letterOf: (scalar: string) => string,
): string {
  const all = namespaces.flatMap(descendants);
  const messages = all.filter((each) => each instanceof protobuf.Type).map((type) => messageRow(type, letterOf));
  const enums = all.filter((each) => each instanceof protobuf.Enum).map(enumRow);
  return `import { type FieldDescriptor, fieldsFromTexts } from '../wire/index.js';

/** The fields of each message, by its full name. */
export const messageFields: Readonly<Record<string, readonly FieldDescriptor[]>> = /* @__PURE__ */ fieldsFromTexts({
${messages.join('\n')}
});

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

function messageRow(type: protobuf.ReflectionObject, letterOf: (scalar: string) => string): string {
  const fields = [...(type as protobuf.Type).fieldsArray]
    .sort((a, b) => a.id - b.id)
    .map((field) => fieldText(field, letterOf));
  return `'${fullName(type)}': '${fields.join(' ')}',`;
}

/** Returns the text of a field; see `fieldsFromTexts` in src/wire/protobuf/schema.ts. */
function fieldText(field: protobuf.Field, letterOf: (scalar: string) => string): string {
  const { id, name, partOf, repeated, resolvedType } = field;
  const letter = resolvedType === null ? letterOf(field.type) : resolvedType instanceof protobuf.Enum ? 'e' : 'm';
  const usual = name.replace(/_(\w)/g, (_, first: string) => first.toUpperCase());
  const property = camelCase(name) === usual ? '' : `=${camelCase(name)}`;
  const type = resolvedType === null ? '' : `:${fullName(resolvedType)}`;
  const oneof = partOf === null ? '' : `@${camelCase(partOf.name)}`;
  return `${letter}${repeated ? '*' : ''}${id}${name}${property}${type}${oneof}`;
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
