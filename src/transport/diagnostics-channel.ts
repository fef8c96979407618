/** What there is to see of `node:diagnostics_channel`. A subscriber that throws throws nothing here. */
interface DiagnosticsChannel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

/** For hosts that have none. */
export function silentChannel(): DiagnosticsChannel {
  return { hasSubscribers: false, publish: () => {} };
}
