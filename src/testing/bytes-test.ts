/** Tells the bytes that are meant, of one read from a socket: what a larger message lies in several of is not found. */
export type BytesTest = (bytes: Uint8Array) => boolean;

/** Whether bytes contain all of these; a string stands for its UTF-8. */
export function containing(...parts: readonly (string | Uint8Array)[]): BytesTest {
  const wanted = parts.map((part) => Buffer.from(part as string));
  return (bytes) => {
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    return wanted.every((part) => given.includes(part));
  };
}
