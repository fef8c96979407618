// Makes an exercise of a program: keeps what other programs import, and removes the code that the reader writes. Relies
// on the format of the programs: a declaration and its end begin at the start of a line, and a method two spaces later.

/** The beginning of a declaration or of the comment above it. */
const BEGINNING = /^(?=\/\*\*|\/\/ |import |export |const |type |interface |function |async |class )/m;
const FUNCTION = /^(export (?:async )?function\*? (\w+).*\{)\n[\s\S]*?^\}\n/m;
const METHOD = /^( {2}(?:async )?(\w+)\(.*\{)\n[\s\S]*?^ {2}\}\n/gm;
/** A field or a method of a class whose name begins with `#`. */
const PRIVATE = /\n? {2}(?:readonly |async )?#\w+(?:[^{\n]*;\n|[\s\S]*?^ {2}\}\n)/gm;

/** Returns a program without the bodies of its functions and methods, and without what only these use. */
export function blankOf(program: string): string {
  const kept: string[] = [];
  let comment = '';
  for (const part of program.split(BEGINNING)) {
    const isComment = /^(?:\/\*\*|\/\/)/.test(part);
    if (/^(?:import|export|type|interface) /.test(part)) kept.push(comment + withoutCode(part));
    comment = isComment ? comment + part : '';
  }
  return `${kept.join('').trimEnd()}\n`;
}

function withoutCode(declaration: string): string {
  return declaration
    .replace(FUNCTION, (_, head: string, name: string) => `${head}\n${toDo('  ', name)}}\n`)
    .replaceAll(PRIVATE, '')
    .replaceAll(METHOD, (_, head: string, name: string) => `${head}\n${toDo('    ', name)}  }\n`);
}

/** The checks report a call that ends with this error as still to do. */
function toDo(indentation: string, name: string): string {
  return `${indentation}throw new Error('TO DO: write ${name}');\n`;
}
