import type protobuf from 'protobufjs';

/**
 * Returns the TypeScript name of a type, which is the name in the .proto file. If that name is "Type", the name of the
 * enclosing message comes before it.
 */
export function localName(type: protobuf.ReflectionObject): string {
  return type.name === 'Type' ? `${type.parent?.name}Type` : type.name;
}

/** Converts a field name: `create_revision` to `createRevision`, `peerURLs` to `peerUrls`, `ID` to `id`. */
export function camelCase(name: string): string {
  const words = name.replace(/[A-Z]{2,}(?=s?(?:_|$))/g, (acronym) => acronym[0] + acronym.slice(1).toLowerCase());
  const joined = words.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  return joined[0]?.toLowerCase() + joined.slice(1);
}

/** Returns a doc comment with this text, or an empty string if there is no text. */
export function doc(comment: string | null | undefined): string {
  if (!comment) return '';
  const lines = comment.split('\n');
  return lines.length === 1 ? `/** ${lines[0]} */\n` : `/**\n${lines.map((line) => ` * ${line}`).join('\n')}\n */\n`;
}
