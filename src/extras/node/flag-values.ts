// How etcdctl, as a program in Go, reads the values of its flags and of its environment variables.

/** The texts that `parseBoolean` accepts, for error messages. */
export const BOOLEANS = '1, t, T, TRUE, true, True, 0, f, F, FALSE, false and False';

/** Parses a boolean as Go's `strconv.ParseBool` does. Returns undefined for text that is not one of `BOOLEANS`. */
export function parseBoolean(text: string): boolean | undefined {
  if (/^(?:1|t|T|TRUE|true|True)$/.test(text)) return true;
  return /^(?:0|f|F|FALSE|false|False)$/.test(text) ? false : undefined;
}

/**
 * Divides a list of endpoints at commas and at ends of lines, such as the content of a mounted file. Removes blanks and
 * double quotes around an endpoint, empty parts, and endpoints that the list has already named.
 */
export function endpointsIn(list: string): readonly string[] {
  const parts = list.split(/[,\r\n]/).map((part) => /^"(.*)"$/.exec(part.trim())?.[1] ?? part.trim());
  return [...new Set(parts)].filter((part) => part !== '');
}

/**
 * Returns the name and the password of a user. `user` is `name` or `name:password`. But if there is a separate password,
 * the whole text is the name. An empty password counts as missing.
 */
export function loginOf(
  user: string,
  password: string | undefined,
): { readonly username: string; readonly password: string | undefined } {
  const colon = password ? -1 : user.indexOf(':');
  if (colon === -1) return { username: user, password: password || undefined };
  return { username: user.slice(0, colon), password: user.slice(colon + 1) || undefined };
}
