import type { FieldType } from '../protobuf/schema.js';

/** The type of a field as a .proto file has it. */
export function typeText(type: FieldType): string {
  if ('scalar' in type) return type.scalar;
  return 'message' in type ? type.message : type.enum;
}
