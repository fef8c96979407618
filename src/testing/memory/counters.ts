/** The counts of a member for `/metrics`. A restart does not reset them. */
export class Counters {
  /** The number of open watch streams. */
  watchStreams = 0;
  /** The number of watches that clients have created and not canceled. */
  watchers = 0;
  /** The number of events that watches have received. */
  events = 0;
  /** The number of calls, by the path of the method. */
  readonly calls: Map<string, number> = new Map<string, number>();
  healthSuccesses = 0;
  healthFailures = 0;

  /** Counts a call. */
  called(path: string): void {
    this.calls.set(path, (this.calls.get(path) ?? 0) + 1);
  }
}
