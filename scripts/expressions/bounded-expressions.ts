/**
 * The slow regular expressions whose texts are too short to matter, or that are not slow in fact. For each file,
 * the expressions, and why each of them is harmless.
 */
export const BOUNDED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'src/wire/connect-failed.ts': {
    '/[^\\w)]+$/': 'the text is cut after MAX_PROBLEM_CHARS = 300 characters',
  },
  'packages/cli/src/commands/shell-words.ts': {
    '/:.*$/s': 'with the flag s, the expression matches at the first colon, so the engine tries only one start',
  },
  'packages/migrate/src/rewriter.ts': {
    'RegExp()': 'the expression is an identifier of the program that the user migrates, without a repetition',
  },
  'packages/cli/src/inspect/secrets.ts': {
    'RegExp()':
      'the repetitions of a string of JSON exclude each other, and a match ends only at a quote or at the end',
  },
};
