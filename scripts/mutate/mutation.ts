/**
 * A bug that a client could have, as a change to the code of this package. At least one of the tests in `tests` must
 * detect the bug. In the descriptions, a late put is a put whose response was lost and that the server applies later.
 */
export interface Mutation {
  readonly bug: string;
  readonly file: string;
  /** The code to replace. The file contains this text exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Paths of test files, or prefixes of such paths. */
  readonly tests: readonly string[];
  /** Why `test:simulation` does not search for the bug. Undefined if its histories must find the bug. */
  readonly notSimulated?: string;
  /** The scenario of `test:interleavings` that finds the bug with one fault, if one does. */
  readonly scenario?: string;
}
