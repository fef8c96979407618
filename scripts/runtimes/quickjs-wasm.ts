import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { newQuickJSWASMModuleFromVariant, type QuickJSHandle } from 'quickjs-emscripten-core';
import type { HostEvents } from '../../docs/examples/embedded/host.js';

// Runs a bundle in a QuickJS that is compiled to WebAssembly, with the sockets and the clock of this process. It does
// what the program in scripts/embedded does, for machines without cargo:
//   quickjs-wasm.ts FILE [ARGUMENT...]

const [file = '', ...args] = process.argv.slice(2);
const runtime = (await newQuickJSWASMModuleFromVariant(import('@jitl/quickjs-wasmfile-release-sync'))).newRuntime();
const vm = runtime.newContext();
const sockets = new Map<number, Socket>();
let lastSocket = 0;
let timer: NodeJS.Timeout | undefined;

const host = vm.newObject();
vm.setProp(host, 'arguments', evaluated(JSON.stringify(args)));
const newBytes = evaluated('(buffer) => new Uint8Array(buffer)');
define('nowMs', () => vm.newNumber(performance.now()));
define('randomBytes', (length) => bytesOf(crypto.getRandomValues(new Uint8Array(vm.getNumber(length)))));
define('print', (text) => {
  console.log(vm.getString(text));
  return undefined;
});
define('exit', (code) => process.exit(vm.getNumber(code)));
define('heapBytes', () => runtime.computeMemoryUsage().consume((usage) => vm.getProp(usage, 'memory_used_size')));
define('residentBytes', () => vm.newNumber(process.memoryUsage().rss));
define('connect', (name, port) => {
  lastSocket += 1;
  const id = lastSocket;
  const socket = connect(vm.getNumber(port), vm.getString(name)).setNoDelay(true);
  sockets.set(id, socket);
  let problem: string | undefined;
  socket.on('connect', () => call('opened', vm.newNumber(id)));
  socket.on('data', (bytes) => call('read', vm.newNumber(id), bytesOf(bytes)));
  socket.on('drain', () => call('drained', vm.newNumber(id)));
  socket.on('error', ({ message }) => {
    problem = message;
  });
  socket.on('close', () => {
    if (!sockets.delete(id)) return;
    call('closed', vm.newNumber(id), problem === undefined ? vm.undefined : vm.newString(problem));
  });
  return vm.newNumber(id);
});
define('write', (id, view) => {
  const socket = sockets.get(vm.getNumber(id));
  return vm.newNumber(socket === undefined || socket.write(copyOf(view)) ? 0 : socket.writableLength);
});
define('close', (handle) => {
  const id = vm.getNumber(handle);
  const socket = sockets.get(id);
  socket?.end(() => call('drained', vm.newNumber(id)));
  return vm.newNumber(socket?.writableLength ?? 0);
});
define('abort', (handle) => {
  const id = vm.getNumber(handle);
  const socket = sockets.get(id);
  sockets.delete(id);
  socket?.destroy();
  return undefined;
});
vm.setProp(vm.global, 'host', host);
evaluated(readFileSync(file, 'utf8')).dispose();
settle();

type Callback = (...args: QuickJSHandle[]) => QuickJSHandle | undefined;

function define(name: string, callback: Callback): void {
  vm.newFunction(name, callback).consume((handle) => vm.setProp(host, name, handle));
}

function evaluated(code: string): QuickJSHandle {
  return vm.unwrapResult(vm.evalCode(code));
}

/** Calls a function of `hostEvents`, and then runs the pending jobs. */
function call(name: keyof HostEvents, ...given: QuickJSHandle[]): unknown {
  const events = vm.getProp(vm.global, 'hostEvents');
  const callee = vm.getProp(events, name);
  const result = vm.unwrapResult(vm.callFunction(callee, vm.undefined, ...given)).consume((handle) => vm.dump(handle));
  for (const handle of [callee, events, ...given]) if (handle !== vm.undefined) handle.dispose();
  if (name !== 'runTimers') settle();
  return result;
}

/** Runs the pending jobs and the timers that are due, and sleeps until the next timer. */
function settle(): void {
  clearTimeout(timer);
  let nextMs: number;
  do {
    while (runtime.hasPendingJob()) vm.unwrapResult(runtime.executePendingJobs());
    nextMs = call('runTimers') as number;
  } while (runtime.hasPendingJob());
  if (nextMs >= 0) timer = setTimeout(settle, nextMs);
}

function bytesOf(bytes: Uint8Array): QuickJSHandle {
  const buffer = vm.newArrayBuffer(Uint8Array.from(bytes).buffer);
  return buffer.consume((handle) => vm.unwrapResult(vm.callFunction(newBytes, vm.undefined, handle)));
}

function copyOf(view: QuickJSHandle): Uint8Array {
  const numberOf = (name: string): number => vm.getProp(view, name).consume((handle) => vm.getNumber(handle));
  const [at, length] = [numberOf('byteOffset'), numberOf('byteLength')];
  return vm
    .getProp(view, 'buffer')
    .consume((buffer) =>
      vm.getArrayBuffer(buffer).consume((bytes) => Uint8Array.from(bytes.value.subarray(at, at + length))),
    );
}
