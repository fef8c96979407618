/** "…:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:…": what is for people in it. Else as it is. */
export function opensslWords(text: string): string {
  return /(?:^|:)error:\w+:[^:]*:[^:]*:([^:]+)/.exec(text)?.[1] ?? text;
}
