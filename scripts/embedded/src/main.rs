//! Runs a JavaScript file in QuickJS with TCP sockets and timers, and nothing else of a runtime. The file is a bundle of
//! a program, the client and the polyfills of docs/examples/embedded. The object `host` has the functions of this file;
//! the bundle sets `hostEvents`, whose functions this file calls.
//!
//!     embedded FILE [ARGUMENT...]

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::rc::Rc;
use std::time::Duration;

use either::Either;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rquickjs::function::Func;
use rquickjs::{CatchResultExt, Context, Ctx, Function, Object, Runtime, TypedArray};

const READ_BYTES: usize = 16_384;
/// QuickJS collects cycles of garbage when its heap has grown by this many bytes.
const GC_THRESHOLD_BYTES: usize = 262_144;

struct Socket {
    stream: TcpStream,
    unsent: Vec<u8>,
    is_open: bool,
    /// Whether the socket closes when `unsent` is empty.
    is_closing: bool,
}

impl Socket {
    /// Sends as many bytes as the system accepts. Returns an error if the connection is broken.
    fn flush(&mut self) -> std::io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

struct Sockets {
    poll: Poll,
    open: HashMap<usize, Socket>,
    last: usize,
}

impl Sockets {
    fn connect(&mut self, host: &str, port: u16) -> std::io::Result<usize> {
        let address = (host, port).to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        self.last += 1;
        let interests = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(self.last), interests)?;
        let socket = Socket {
            stream,
            unsent: Vec::new(),
            is_open: false,
            is_closing: false,
        };
        self.open.insert(self.last, socket);
        Ok(self.last)
    }

    /// Sends bytes, and returns how many bytes are unsent. An error of the connection also appears as an event.
    fn write(&mut self, id: usize, bytes: &[u8]) -> usize {
        let Some(socket) = self.open.get_mut(&id) else { return 0 };
        socket.unsent.extend_from_slice(bytes);
        if socket.is_open {
            let _ = socket.flush();
        }
        socket.unsent.len()
    }

    /// Closes the socket when all bytes are sent. Returns how many bytes are unsent.
    fn close(&mut self, id: usize) -> usize {
        let Some(socket) = self.open.get_mut(&id) else { return 0 };
        socket.is_closing = true;
        let unsent = socket.unsent.len();
        if unsent == 0 {
            self.open.remove(&id);
        }
        unsent
    }
}

type Shared = Rc<RefCell<Sockets>>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("usage: embedded FILE [ARGUMENT...]");
    let source = std::fs::read_to_string(&file).expect("the file cannot be read");
    let poll = Poll::new().expect("the system has no poll");
    let sockets: Shared = Rc::new(RefCell::new(Sockets {
        poll,
        open: HashMap::new(),
        last: 0,
    }));
    let runtime = Runtime::new().expect("QuickJS does not start");
    runtime.set_max_stack_size(1 << 20);
    runtime.set_gc_threshold(GC_THRESHOLD_BYTES);
    let context = Context::full(&runtime).expect("QuickJS does not start");
    context.with(|ctx| {
        define_host(&ctx, &sockets, arguments.collect()).expect("the functions of the host cannot be defined");
        run(&ctx, ctx.eval::<(), _>(source));
    });
    let mut events = Events::with_capacity(64);
    loop {
        run_jobs(&runtime);
        // Runs the timers that are due. Returns the time until the next one in milliseconds, or -1 without timers.
        let next_ms = context.with(|ctx| call::<f64>(&ctx, "runTimers", ()));
        if runtime.is_job_pending() {
            continue;
        }
        if next_ms < 0.0 && sockets.borrow().open.is_empty() {
            return;
        }
        let timeout = (next_ms >= 0.0).then(|| Duration::from_secs_f64(next_ms / 1_000.0));
        if let Err(error) = sockets.borrow_mut().poll.poll(&mut events, timeout) {
            assert!(error.kind() == ErrorKind::Interrupted, "poll: {error}");
        }
        for event in &events {
            context.with(|ctx| handle(&ctx, &sockets, event.token().0));
            run_jobs(&runtime);
        }
    }
}

/// Runs the pending jobs. Ends the process if one of them has thrown an error.
fn run_jobs(runtime: &Runtime) {
    while runtime.is_job_pending() {
        if let Err(exception) = runtime.execute_pending_job() {
            exception
                .0
                .with(|ctx| run(&ctx, Err::<(), _>(rquickjs::Error::Exception)));
        }
    }
}

/// Reads and writes as much as the socket allows, and reports what has happened to the bundle.
fn handle(ctx: &Ctx, sockets: &Shared, id: usize) {
    let mut buffer = [0; READ_BYTES];
    let problem = loop {
        let mut all = sockets.borrow_mut();
        let Some(socket) = all.open.get_mut(&id) else { return };
        if !socket.is_open {
            match socket.stream.take_error() {
                Ok(None) if socket.stream.peer_addr().is_ok() => socket.is_open = true,
                Ok(None) => return,
                Ok(Some(error)) | Err(error) => break Some(error.to_string()),
            }
            drop(all);
            call::<()>(ctx, "opened", (id,));
            continue;
        }
        let had_unsent = !socket.unsent.is_empty();
        if let Err(error) = socket.flush() {
            break Some(error.to_string());
        }
        if socket.unsent.is_empty() && socket.is_closing {
            all.open.remove(&id);
            drop(all);
            return call::<()>(ctx, "drained", (id,));
        }
        let is_drained = had_unsent && socket.unsent.is_empty();
        let read = socket.stream.read(&mut buffer);
        drop(all);
        if is_drained {
            call::<()>(ctx, "drained", (id,));
        }
        match read {
            Ok(0) => break None,
            Ok(length) => {
                let bytes = TypedArray::<u8>::new_copy(ctx.clone(), &buffer[..length]).expect("out of memory");
                call::<()>(ctx, "read", (id, bytes));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break Some(error.to_string()),
        }
    };
    sockets.borrow_mut().open.remove(&id);
    call::<()>(ctx, "closed", (id, problem));
}

/// Calls a function of `hostEvents`.
fn call<'js, R: rquickjs::FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    arguments: impl rquickjs::function::IntoArgs<'js>,
) -> R {
    let function = ctx
        .globals()
        .get::<_, Object>("hostEvents")
        .and_then(|events| events.get::<_, Function>(name));
    run(ctx, function.and_then(|function| function.call(arguments)))
}

/// Ends the process if the code has thrown an error.
fn run<'js, T>(ctx: &Ctx<'js>, result: rquickjs::Result<T>) -> T {
    result.catch(ctx).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    })
}

fn define_host(ctx: &Ctx, sockets: &Shared, arguments: Vec<String>) -> rquickjs::Result<()> {
    let host = Object::new(ctx.clone())?;
    host.set("arguments", arguments)?;
    let all = sockets.clone();
    // Returns the number of the socket, or the reason why the system cannot connect it.
    host.set(
        "connect",
        Function::new(ctx.clone(), move |name: String, port: u16| {
            all.borrow_mut()
                .connect(&name, port)
                .map_or_else(|error| Either::Right(error.to_string()), Either::Left)
        })?,
    )?;
    let all = sockets.clone();
    host.set(
        "write",
        Function::new(ctx.clone(), move |id: usize, bytes: TypedArray<u8>| {
            // No code of JavaScript runs while the bytes are borrowed, so nothing can detach or change them.
            all.borrow_mut().write(id, unsafe { bytes.as_bytes() }.unwrap_or(&[]))
        })?,
    )?;
    let all = sockets.clone();
    host.set(
        "close",
        Function::new(ctx.clone(), move |id: usize| all.borrow_mut().close(id))?,
    )?;
    let all = sockets.clone();
    host.set(
        "abort",
        Function::new(ctx.clone(), move |id: usize| drop(all.borrow_mut().open.remove(&id)))?,
    )?;
    host.set("nowMs", Func::from(now_ms))?;
    host.set("randomBytes", Func::from(random_bytes))?;
    host.set("print", Func::from(|text: String| println!("{text}")))?;
    host.set("exit", Func::from(|code: i32| -> () { std::process::exit(code) }))?;
    host.set("residentBytes", Func::from(resident_bytes))?;
    host.set("heapBytes", Func::from(heap_bytes))?;
    ctx.globals().set("host", host)
}

/// Milliseconds on a clock that is never set back. On Linux, it also advances while the machine sleeps.
fn now_ms() -> f64 {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let status = unsafe { libc::clock_gettime(CLOCK, &mut time) };
    assert!(status == 0, "the system has no clock");
    time.tv_sec as f64 * 1_000.0 + time.tv_nsec as f64 / 1e6
}

fn random_bytes<'js>(ctx: Ctx<'js>, length: usize) -> rquickjs::Result<TypedArray<'js, u8>> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).expect("the system has no random numbers");
    TypedArray::new(ctx, bytes)
}

/// Bytes that QuickJS has allocated, after a collection of garbage.
fn heap_bytes(ctx: Ctx) -> i64 {
    ctx.run_gc();
    unsafe {
        let mut usage = std::mem::MaybeUninit::<rquickjs::qjs::JSMemoryUsage>::uninit();
        rquickjs::qjs::JS_ComputeMemoryUsage(rquickjs::qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), usage.as_mut_ptr());
        usage.assume_init().malloc_size
    }
}

/// Resident memory of this process. 0 on systems without `/proc`.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|kb| kb.parse::<f64>().ok())
        .unwrap_or(0.0)
        * 1_024.0
}
