import { Converter, LiteralType, ReflectionKind, UnionType } from 'typedoc';

// A plugin of TypeDoc for the reference.

/** Unions of names that the sources derive from a table. The reference lists the names. */
const LISTED = new Set(['ServerReason', 'Isolation']);

/** @type {Map<import('typedoc').DeclarationReflection, UnionType>} */
const unions = new Map();

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_CREATE_DECLARATION, findNames);
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const [reflection, type] of unions) reflection.type = type;
    leaveOutCodecs(project);
    nameParameters(project);
  });
}

/**
 * Notes the names of a union. TypeDoc sets the type of an alias after this event.
 *
 * @param {import('typedoc').Context} context
 * @param {import('typedoc').DeclarationReflection} reflection
 */
function findNames(context, reflection) {
  if (reflection.kind !== ReflectionKind.TypeAlias || !LISTED.has(reflection.name)) return;
  const symbol = context.getSymbolFromReflection(reflection);
  const type = symbol && context.checker.getDeclaredTypeOfSymbol(symbol);
  if (!type?.isUnion()) throw new Error(`${reflection.name} is not a union`);
  // The compiler's own order changes with unrelated code.
  const names = type.types.map((member) => member.value).sort();
  unions.set(reflection, new UnionType(names.map((name) => new LiteralType(name))));
}

/**
 * A message of the wire is a type and, under the same name, its codec. Only the type is exported, but TypeDoc takes the
 * codec for a second type.
 *
 * @param {import('typedoc').ProjectReflection} project
 */
function leaveOutCodecs(project) {
  for (const reflection of project.getReflectionsByKind(ReflectionKind.TypeAlias)) {
    if (reflection.type?.type === 'reference' && reflection.type.name === 'Codec') project.removeReflection(reflection);
  }
}

/**
 * TypeDoc calls a destructured parameter `__namedParameters`.
 *
 * @param {import('typedoc').ProjectReflection} project
 */
function nameParameters(project) {
  for (const reflection of project.getReflectionsByKind(ReflectionKind.Parameter)) {
    if (reflection.name === '__namedParameters') reflection.name = 'options';
  }
}
