//! The `tidegate-loadtester` command: a server for rollouts, and load from the command line.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0 success, 1 failure of the thing asked about, 2 could not run.

use std::{
    error::Error,
    io::{self, IsTerminal, Read, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use jiff::Timestamp;
use tidegate_loadtester::{
    args::{Args, Command, Sign, preprocess},
    auth::{SIGNATURE, Signed, TIMESTAMP, read_secrets, sign},
    load::{BodyFiles, Bounds, Output, Plan, Report, Running, Tool},
    run::{Settings, run},
};
use tidegate_runtime::log;
use tokio::runtime::Runtime;

type Failure = Box<dyn Error>;

/// A machine has no more ports to connect from.
const CONNECTIONS_MAX: u32 = 65_535;

const LOAD_HELP: &str = "\
Make load once and print a report.

Usage: tidegate-loadtester load [hey] FLAGS URL
       tidegate-loadtester load wrk FLAGS URL

Flags of hey:
  -z DURATION   for how long: 10s, 1m30s      -m METHOD       method (GET)
  -n N          how many requests (200)       -H 'NAME: V'    header, any number of times
  -c N          connections (50)              -A, -T, -U      Accept, Content-Type, User-Agent
  -q RATE       requests a second on each     -d BODY, -D FILE  what is sent
                connection                    -a USER:PASS    basic authentication
  -t SECONDS    for one request (20)          -host NAME      Host header
  -h2           HTTP/2 over TLS               -disable-keepalive, -disable-compression
  -h2c          HTTP/2 without TLS            -cpus N         threads (one for each core)
  -verify       check certificates            -o json         report as JSON

Flags of wrk: -c, -d, -t, -H, --timeout; and -R, the rate of wrk2

Under a rate latency counts from when each request was due, not from when it was sent.
";

fn main() -> ExitCode {
    let Args { command, serve } = Args::parse_from(preprocess(std::env::args_os()));
    let outcome = match command {
        None => serve_forever(serve).map(|()| true),
        Some(Command::Load { arguments }) => load(&arguments),
        Some(Command::Sign(args)) => sign_stdin(&args).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            message(&format!("error: {}", log::chain(&*error)));
            ExitCode::from(2)
        }
    }
}

fn serve_forever(args: tidegate_loadtester::args::Serve) -> Result<(), Failure> {
    let settings = Settings::of(args)?;
    log::init(settings.log)?;
    Runtime::new()?.block_on(run(settings))?;
    Ok(())
}

/// True if any request was answered.
fn load(arguments: &[String]) -> Result<bool, Failure> {
    let is_help = |it: &String| matches!(it.as_str(), "-h" | "-help" | "--help");
    if arguments.is_empty() || arguments.iter().any(is_help) {
        data(LOAD_HELP)?;
        return Ok(true);
    }
    let named = arguments.first().and_then(|first| Tool::of(first));
    let words = arguments.get(usize::from(named.is_some())..).unwrap_or_default();
    let bounds = Bounds { connections_max: CONNECTIONS_MAX, body_files: BodyFiles::Any };
    let plan = Plan::parse(named.unwrap_or(Tool::Hey), words, &bounds)?;
    let output = plan.output;
    let running = Running::start(plan)?;
    // All that is left to do here is to wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(watch(running))?;
    match output {
        Output::Text => data(&report.text())?,
        Output::Json => data(&format!("{:#}\n", report.json()))?,
    }
    Ok(report.is_answered())
}

/// Waits for the end, or for Ctrl-C. On a terminal it shows the progress.
async fn watch(mut running: Running) -> Result<Report, io::Error> {
    let start = Instant::now();
    let is_watched = io::stderr().is_terminal();
    let mut is_halted = false;
    loop {
        tokio::select! {
            biased;
            report = running.finish() => {
                if is_watched {
                    let _best_effort = write!(io::stderr(), "\r\u{1b}[2K");
                }
                return Ok(report);
            }
            interrupted = tokio::signal::ctrl_c(), if !is_halted => {
                interrupted?;
                is_halted = true;
                running.halt();
            }
            () = tokio::time::sleep(Duration::from_secs(1)), if is_watched => {
                let stats = running.stats();
                let seconds = start.elapsed().as_secs();
                let (requests, failed) = (stats.requests(), stats.failed());
                let line = format!("{seconds} s  {requests} requests  {failed} errors");
                // A terminal that is gone does not stop the work.
                let _best_effort = write!(io::stderr(), "\r\u{1b}[2K{line}");
            }
        }
    }
}

fn sign_stdin(args: &Sign) -> Result<(), Failure> {
    let secrets = read_secrets(&args.secret_file)?;
    let secret = secrets.first().ok_or("the file holds no secret")?;
    let mut body = Vec::new();
    io::stdin().lock().read_to_end(&mut body)?;
    let time = Timestamp::now().as_second().to_string();
    let signature = sign(secret, &time, Signed { path: &args.path, body: &body });
    data(&format!("{TIMESTAMP}: {time}\n{SIGNATURE}: {signature}\n"))?;
    Ok(())
}

fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn message(text: &str) {
    let _best_effort = writeln!(io::stderr().lock(), "{text}");
}

/// The reader of our output closed it: that is no error.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}
