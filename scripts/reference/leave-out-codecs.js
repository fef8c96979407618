import { Converter, ReflectionKind } from 'typedoc';

// A message of the interface is a type and, under the same name, its codec. Only the type is exported: TypeDoc takes the
// codec for a second type.

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const reflection of project.getReflectionsByKind(ReflectionKind.TypeAlias)) {
      if (reflection.type?.type === 'reference' && reflection.type.name === 'Codec')
        project.removeReflection(reflection);
    }
  });
}
