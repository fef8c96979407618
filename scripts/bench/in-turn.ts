/** Makes `count` calls, `inFlight` at a time. Passes each call its index. */
export async function inTurn(
  inFlight: number,
  count: number,
  call: (index: number) => Promise<unknown>,
): Promise<void> {
  let made = 0;
  const loop = async (): Promise<void> => {
    while (made < count) await call(made++);
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
}
