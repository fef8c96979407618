/** A word of a shell command, which may consist of quoted parts. */
const SHELL_WORD = String.raw`(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+`;
const SECRET_FLAGS = new RegExp(
  String.raw`(--(?:dest-|new-user-)?password|--(?:dest-)?user)(\s*=\s*|\s+)${SHELL_WORD}`,
  'g',
);
const SECRET_VARIABLES = new RegExp(String.raw`(\w*(?:PASSWORD|USER|TOKEN|SECRET)\w*)=${SHELL_WORD}`, 'gi');
const ADDED_USERS = new RegExp(String.raw`(\buser\s+add\s+)${SHELL_WORD}`, 'g');

/** Replaces what may be a password in a shell command with "…". */
export function withoutShellSecrets(command: string): string {
  return command.replace(SECRET_FLAGS, '$1$2…').replace(SECRET_VARIABLES, '$1=…').replace(ADDED_USERS, '$1…');
}

/** Quotes an argument for a shell. */
export function quotedForShell(arg: string): string {
  return /^[\w@%+=:,./…-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
