import { Converter, LiteralType, ReflectionKind, UnionType } from 'typedoc';

// A TypeDoc plugin for the reference. It lists the names of unions, removes codecs and renames parameters.

/** The unions of names that the sources derive from tables. The reference lists the names instead of the derivation. */
const LISTED = new Set(['ServerReason', 'Isolation']);

/**
 * The unions with their names written out. The key is the declaration of the alias.
 *
 * @type {Map<import('typedoc').DeclarationReflection, UnionType>}
 */
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
 * Collects the names of a union. The type is replaced only later, because TypeDoc sets the type of an alias after this
 * event.
 *
 * @param {import('typedoc').Context} context
 * @param {import('typedoc').DeclarationReflection} reflection
 */
function findNames(context, reflection) {
  if (reflection.kind !== ReflectionKind.TypeAlias || !LISTED.has(reflection.name)) return;
  const symbol = context.getSymbolFromReflection(reflection);
  const type = symbol && context.checker.getDeclaredTypeOfSymbol(symbol);
  if (!type?.isUnion()) throw new Error(`${reflection.name} is not a union`);
  // Sort the names, because their order in the compiler changes when unrelated code changes.
  const names = type.types.map((member) => member.value).sort();
  unions.set(reflection, new UnionType(names.map((name) => new LiteralType(name))));
}

/**
 * Removes codecs. Each protobuf message is a type and, under the same name, a codec. Only the type is exported, but
 * TypeDoc lists the codec as a second type.
 *
 * @param {import('typedoc').ProjectReflection} project
 */
function leaveOutCodecs(project) {
  for (const reflection of project.getReflectionsByKind(ReflectionKind.TypeAlias)) {
    if (reflection.type?.type === 'reference' && reflection.type.name === 'Codec') project.removeReflection(reflection);
  }
}

/**
 * Renames destructured parameters, which TypeDoc calls `__namedParameters`, to `options`.
 *
 * @param {import('typedoc').ProjectReflection} project
 */
function nameParameters(project) {
  for (const reflection of project.getReflectionsByKind(ReflectionKind.Parameter)) {
    if (reflection.name === '__namedParameters') reflection.name = 'options';
  }
}
