/** The functions that the program offers in which the engine is embedded. */
export interface Host {
  /** Arguments of the program. */
  readonly arguments: readonly string[];
  /** Milliseconds on a clock that is never set back, and that also advances while the program sleeps. */
  nowMs(): number;
  randomBytes(length: number): Uint8Array;
  /** Starts to connect a TCP socket. Returns its number, or the reason if there is no such address. */
  connect(host: string, port: number): number | string;
  /** Sends bytes. Returns how many bytes are unsent. */
  write(socket: number, bytes: Uint8Array): number;
  /** Closes the socket when all bytes are sent. Returns how many bytes are unsent. */
  close(socket: number): number;
  /** Closes the socket at once. */
  abort(socket: number): void;
  print(text: string): void;
  exit(code: number): void;
  /** Bytes that the engine has allocated, after garbage collection. */
  heapBytes(): number;
  /** Resident memory of the process in bytes. */
  residentBytes(): number;
}

/** The functions that the program calls. */
export interface HostEvents {
  /** Runs the timers that are due. Returns the milliseconds until the next timer is due, or -1 if no timer is set. */
  runTimers(): number;
  /** The socket is connected. */
  opened(socket: number): void;
  /** Bytes have arrived. */
  read(socket: number, bytes: Uint8Array): void;
  /** No byte is unsent any longer. */
  drained(socket: number): void;
  /** The socket has closed. This is its last event. `problem` says why the connection failed. */
  closed(socket: number, problem?: string): void;
}

declare global {
  var host: Host;
  var hostEvents: HostEvents;
}
