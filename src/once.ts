/** Runs the action the first time; whoever asks again, be it while the action begins, gets the same promise. */
export function once<Args extends readonly unknown[], T>(
  action: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let result: Promise<T> | undefined;
  return (...args) => {
    if (result === undefined) {
      let settle: (value: Promise<T>) => void = () => {};
      result = new Promise((resolve) => {
        settle = resolve;
      });
      settle(action(...args));
    }
    return result;
  };
}
