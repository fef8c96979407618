import type protobuf from 'protobufjs';

/** Nested types bear their own name, save for the one called just "Type". */
export function localName(type: protobuf.ReflectionObject): string {
  return type.name === 'Type' ? `${type.parent?.name}Type` : type.name;
}

/** create_revision, peerURLs, grantedTTL, ID: createRevision, peerUrls, grantedTtl, id. */
export function camelCase(name: string): string {
  const words = name.replace(/[A-Z]{2,}(?=s?(?:_|$))/g, (acronym) => acronym[0] + acronym.slice(1).toLowerCase());
  const joined = words.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  return joined[0]?.toLowerCase() + joined.slice(1);
}

export function doc(comment: string | null | undefined): string {
  if (!comment) return '';
  const lines = comment.split('\n');
  return lines.length === 1 ? `/** ${lines[0]} */\n` : `/**\n${lines.map((line) => ` * ${line}`).join('\n')}\n */\n`;
}
