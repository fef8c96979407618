//! Measures calls of Rust's client, the crate `etcd-client`, with which the benchmark compares etcdwire:
//!
//!     etcdwire-bench ENDPOINT PREFIX KEYS KIND VALUE_BYTES IN_FLIGHT WARM_UP SECONDS [CA_FILE]
//!
//! KIND is "get", "put" or "txn". One client makes IN_FLIGHT calls at once, on the keys PREFIX0, PREFIX1 and so on, first
//! for WARM_UP seconds and then for SECONDS. With CA_FILE, it verifies the server's certificate with the authority in
//! this file. The program prints a JSON object with the rate per second, the CPU time in microseconds per call, and
//! percentiles of the latency in milliseconds. ../../go/calls.go does the same with Go's client.

use std::env::args;
use std::fs::read;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, Error, KvClient, TlsOptions, Txn,
    TxnOp,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// `MIN_LAPS_FOR_P99` of ../../child/tasks.ts.
const MIN_LAPS_FOR_P99: usize = 100;

/// The call that the tasks repeat.
struct Call {
    kind: String,
    keys: Vec<String>,
    value: Vec<u8>,
    /// The number of calls made so far. It selects the key of the next call.
    made: AtomicUsize,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = args().skip(1).collect();
    let [
        endpoint,
        prefix,
        keys,
        kind,
        value_bytes,
        in_flight,
        warm_up,
        seconds,
        ca_file @ ..,
    ] = &args[..]
    else {
        return Err(
            "expected ENDPOINT PREFIX KEYS KIND VALUE_BYTES IN_FLIGHT WARM_UP SECONDS [CA_FILE]"
                .into(),
        );
    };
    let mut options = ConnectOptions::new();
    if let [ca_file] = ca_file {
        options = options
            .with_tls(TlsOptions::new().ca_certificate(Certificate::from_pem(read(ca_file)?)));
    }
    let client = Client::connect([endpoint], Some(options))
        .await?
        .kv_client();
    let call = Arc::new(Call {
        kind: kind.clone(),
        keys: (0..keys.parse()?)
            .map(|index: usize| format!("{prefix}{index}"))
            .collect(),
        value: vec![b'v'; value_bytes.parse()?],
        made: AtomicUsize::new(0),
    });
    let in_flight = in_flight.parse()?;
    let warm_up = Duration::from_secs_f64(warm_up.parse()?);
    let duration = Duration::from_secs_f64(seconds.parse()?);
    repeat(&client, &call, in_flight, warm_up).await?;

    let (start_cpu, start) = (cpu_time(), Instant::now());
    let mut laps = repeat(&client, &call, in_flight, duration).await?;
    let (elapsed, cpu) = (start.elapsed(), cpu_time() - start_cpu);
    laps.sort_unstable();
    let calls = laps.len() as f64;
    let ms = |percent: usize| laps[laps.len() * percent / 100].as_secs_f64() * 1e3;
    let p99 = if laps.len() < MIN_LAPS_FOR_P99 {
        String::new()
    } else {
        format!(r#","p99Ms":{}"#, ms(99))
    };
    println!(
        r#"{{"rate":{},"cpuUs":{},"p50Ms":{}{p99}}}"#,
        calls / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / calls,
        ms(50),
    );
    Ok(())
}

/// Keeps `in_flight` calls running for this time. Returns the duration of each call.
async fn repeat(
    client: &KvClient,
    call: &Arc<Call>,
    in_flight: usize,
    time: Duration,
) -> Result<Vec<Duration>, Failure> {
    let deadline = Instant::now() + time;
    let tasks: Vec<_> = (0..in_flight)
        .map(|_| {
            let (mut client, call) = (client.clone(), call.clone());
            tokio::spawn(async move {
                let mut laps = Vec::new();
                let mut started_at = Instant::now();
                while started_at < deadline {
                    call.make(&mut client).await?;
                    let ended_at = Instant::now();
                    laps.push(ended_at - started_at);
                    started_at = ended_at;
                }
                Ok::<_, Error>(laps)
            })
        })
        .collect();
    let mut laps = Vec::new();
    for task in tasks {
        laps.extend(task.await??);
    }
    Ok(laps)
}

impl Call {
    /// Makes one call and checks its result.
    async fn make(&self, client: &mut KvClient) -> Result<(), Error> {
        let key = self.keys[self.made.fetch_add(1, Relaxed) % self.keys.len()].as_str();
        match self.kind.as_str() {
            "get" => {
                let response = client.get(key, None).await?;
                assert_eq!(response.kvs()[0].value().len(), self.value.len());
            }
            "put" => {
                client.put(key, self.value.as_slice(), None).await?;
            }
            "txn" => {
                let exists = Compare::create_revision(key, CompareOp::Greater, 0);
                let put = TxnOp::put(key, self.value.as_slice(), None);
                let response = client
                    .txn(Txn::new().when([exists]).and_then([put]))
                    .await?;
                assert!(response.succeeded());
            }
            kind => panic!("unknown kind of call: {kind}"),
        }
        Ok(())
    }
}

/// Returns the user and system CPU time of this process.
fn cpu_time() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `getrusage` fills the struct that the pointer refers to, and fails only for an invalid first argument.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let duration =
        |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}
