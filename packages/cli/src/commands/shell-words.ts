import { SECRET_NAME, withoutUrlSecrets } from '../inspect/index.js';

/** Takes the place of a secret. */
const HIDDEN = '…';
/** Matches a word of a shell command, which may consist of quoted parts, or a quotation mark without its pair. */
const SHELL_WORD = /(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+|["'\\]/gs;
/** Matches a name before a value: `NAME=VALUE`, `--name=VALUE`, `Name: VALUE`, `"name":VALUE`. */
const NAMED = /(?<![\w.-])([\w.-]+)["']?\s*[=:](?!\/\/)/g;
/** Matches flags whose next word is no value. */
const WITHOUT_VALUE = /^--(?:plaintext-auth|no-.*|client-cert-auth|peer-client-cert-auth)$/;
/** Matches flags with one dash, as programs in Go have them. Any other word with `-p` may be `-pPASSWORD`. */
const GO_FLAGS = /^-(?:password|passwd|passphrase|auth|auth-token|api-?key|token|secret|user|username|login|cookie)$/;
/** Matches flags of one letter whose value is a password: `redis-cli -a`, `sshpass -p`. The value may be attached. */
const PASSWORD_LETTER = /^-[ap]/;
/** Matches flags of one letter whose value is a login or a cookie if it contains `:` or `=`: `curl -u`, `curl -b`. */
const LOGIN_LETTER = /^-[bUu]/;

/** Formats a command line for people, and replaces what may be secret in it by "…". */
export function shownCommand(words: readonly string[]): string {
  return withoutSecretWords(words).map(quotedForShell).join(' ');
}

/** Replaces what may be secret in a shell command by "…". */
export function withoutShellSecrets(command: string): string {
  const words = [...command.matchAll(SHELL_WORD)].map(([raw]) => ({ raw, word: unquoted(raw) }));
  const shown = withoutSecretWords(words.map(({ word }) => word));
  let index = 0;
  return command.replace(SHELL_WORD, (raw) => {
    const [before, after] = [words[index]?.word, shown[index]];
    index += 1;
    return after === undefined || before === after ? raw : quotedForShell(after);
  });
}

function withoutSecretWords(words: readonly string[]): readonly string[] {
  const user = words.indexOf('user');
  const added = user === -1 ? -1 : words.indexOf('add', user);
  return words.map((word, index) => {
    // The argument of `user add` may be NAME:PASSWORD. Options may stand before this argument.
    const before = words[index - 1] ?? '';
    const isLogin = /^--(?:dest-)?user$/.test(before);
    if (!isLogin && isValueOfSecret(before, word)) return HIDDEN;
    const isAdded = added !== -1 && index > added && !/^-|:\/\//.test(word);
    return withoutSecretParts(isLogin || isAdded ? word.replace(/:.*$/s, `:${HIDDEN}`) : word);
  });
}

/** Whether a flag says that the next word is secret. */
function isValueOfSecret(flag: string, value: string): boolean {
  if (/^-[bUu]$/.test(flag)) return /[:=]/.test(value);
  return /^-[ap]$/.test(flag) || isSecretFlag(flag);
}

function isSecretFlag(word: string): boolean {
  return GO_FLAGS.test(word) || (/^--\w[\w.-]+$/.test(word) && isSecretName(word) && !WITHOUT_VALUE.test(word));
}

/** Hides the value of a secret flag, variable, header or parameter in a word, and the secrets in URLs. */
function withoutSecretParts(word: string): string {
  const login = /^--(?:dest-)?user=[^:]*:/.exec(word)?.[0];
  if (login !== undefined) return login + HIDDEN;
  if (isSecretFlag(word)) return word;
  if (PASSWORD_LETTER.test(word) && word.length > 2) return word.slice(0, 2) + HIDDEN;
  if (LOGIN_LETTER.test(word) && /[:=]/.test(word)) return word.slice(0, 2) + HIDDEN;
  const named = [...word.matchAll(NAMED)].find(([, name = '']) => isSecretName(name));
  const end = named === undefined ? word.length : named.index + named[0].length;
  const shown = withoutUrlSecrets(word.slice(0, end), () => HIDDEN);
  // A word with blanks may be a shell command, such as that of `sh -c`.
  const start = /\s/.test(shown) && shown !== '' ? withoutShellSecrets(shown) : shown;
  return named === undefined ? start : start + HIDDEN;
}

function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) || /user|login/i.test(name);
}

function unquoted(raw: string): string {
  return raw.replace(
    /"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/gs,
    (_, double?: string, single?: string, escaped?: string) =>
      double === undefined ? (single ?? escaped ?? '') : double.replace(/\\(["\\$`])/g, '$1'),
  );
}

/** Quotes an argument for a shell. */
function quotedForShell(arg: string): string {
  return /^[\w@%+=:,./…-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
