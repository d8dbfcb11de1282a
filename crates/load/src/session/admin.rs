//! The generator's admin port: live figures, and changes of the rate.
//!
//! ```text
//!   GET  /metrics            live figures for Prometheus         GET /rate     the requested rate
//!   PUT  /rate               body: 50k                           PUT /ratelimit/50000   the same, as in rpc-perf
//!   POST /quitquitquit       ends the run; its measurements are reported
//! ```
//!
//! Invariants: one thread serves one request per connection, with limits on time and length. Requests from web pages
//! cannot change anything; browsers mark them with their origin.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::RunControl;
use crate::result::from_run;
use crate::result::metrics;
use crate::search::rate::Rate;

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Highest number of header lines in a request.
const HEADERS_MAX: usize = 64;
/// Time limit for a peer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval at which the thread checks whether it must end.
const LOOK: Duration = Duration::from_millis(50);

const HELP: &str = "GET /metrics, GET /rate, PUT /rate with a body such as 50k, PUT /ratelimit/50000, POST \
                    /quitquitquit\n";

/// A running admin port. Dropping it ends the port.
pub struct Admin {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Serves the figures and controls of `run_control` at `addr`.
    ///
    /// # Errors
    /// If the port cannot listen on the address.
    pub fn start(addr: &str, run_control: Arc<RunControl>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => serve(stream, &run_control),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        })?;
        Ok(Self { addr, stop, thread: Some(thread) })
    }

    /// Returns the address on which the port listens.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads one request and sends its reply. Ignores a peer that disconnects.
fn serve(mut stream: TcpStream, run_control: &RunControl) {
    let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
    if prepared.and_then(|()| stream.set_write_timeout(Some(PATIENCE))).is_err() {
        return;
    }
    let (begun, mut bytes) = (Instant::now(), Vec::new());
    let (status, body) = loop {
        let mut chunk = [0; 2048];
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break (408, "the request did not arrive within 2 s\n".to_owned()),
        }
        match parse(&bytes) {
            Some(Ok(request)) => break answer(&request, run_control),
            Some(Err(refused)) => break (refused.0, refused.1.to_owned()),
            None if bytes.len() > REQUEST_BYTES_MAX => break (413, "the request is longer than 8 KiB\n".to_owned()),
            None if begun.elapsed() > PATIENCE => break (408, "the request did not arrive within 2 s\n".to_owned()),
            None => {}
        }
    };
    let reason = if status < 400 { "OK" } else { "Refused" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

struct Request {
    method: String,
    path: String,
    body: String,
}

/// Parses a request. Returns the request, the error to reply with, or `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Option<Result<Request, (u16, &'static str)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Err(_) => return Some(Err((400, "this is not an HTTP/1.1 request; try: curl http://HOST:PORT/metrics\n"))),
    };
    let (method, path) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    if method != "GET" && header("Origin").is_some() {
        return Some(Err((403, "requests from web pages may not change anything here\n")));
    }
    let length: usize = header("Content-Length").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let body = match bytes.get(head_bytes..head_bytes.saturating_add(length)) {
        Some(body) => String::from_utf8_lossy(body).into_owned(),
        None if length > REQUEST_BYTES_MAX => return Some(Err((413, "the body is longer than 8 KiB\n"))),
        None => return None,
    };
    Some(Ok(Request { method: method.to_owned(), path: path.to_owned(), body }))
}

fn answer(request: &Request, run_control: &RunControl) -> (u16, String) {
    let path = request.path.split(['?', '#']).next().unwrap_or_default();
    match (request.method.as_str(), path) {
        ("GET", "/") => (200, HELP.to_owned()),
        ("GET", "/metrics") => (200, live_metrics(run_control)),
        ("GET", "/rate") => (200, format!("{}\n", run_control.rate_per_s())),
        ("PUT", "/rate") => set_rate(&request.body, run_control),
        ("PUT", limit) if limit.starts_with("/ratelimit/") => set_rate(&limit["/ratelimit/".len()..], run_control),
        ("POST", "/quitquitquit") => {
            run_control.stop();
            (200, "the run is ending\n".to_owned())
        }
        ("GET" | "PUT" | "POST", _) => (404, HELP.to_owned()),
        _ => (405, HELP.to_owned()),
    }
}

fn set_rate(text: &str, run_control: &RunControl) -> (u16, String) {
    let rate: Rate = match text.trim().parse() {
        Ok(rate) => rate,
        Err(error) => return (400, format!("{error}\n")),
    };
    match run_control.set_rate(rate) {
        Ok(taken) => (200, format!("{rate} {}\n", taken.words())),
        Err(refused) => (409, format!("{}\n", refused.words())),
    }
}

/// Returns the metrics of a run in progress.
fn live_metrics(run_control: &RunControl) -> String {
    let mut out = String::new();
    let Some((what, live)) = run_control.live() else { return "# no run is in progress\n".to_owned() };
    let _ = writeln!(out, "# {what}");
    let lately = live.recent.last();
    let achieved = lately.map_or(0.0, |slice| slice.answered as f64 * 1e9 / slice.length_ns.max(1) as f64);
    for (name, help, value) in [
        ("target_per_second", "The requested rate; 0 in a closed loop.", run_control.rate_per_s()),
        ("achieved_per_second", "Replies per second in the latest slice of the run.", achieved),
        ("elapsed_seconds", "Elapsed time of this run.", live.elapsed_ns as f64 / 1e9),
    ] {
        let _ = write!(out, "# HELP gannet_load_{name} {help}\n# TYPE gannet_load_{name} gauge\n");
        let _ = writeln!(out, "gannet_load_{name} {value}");
    }
    metrics::counts(&mut out, &from_run::counts(&live.totals));
    out.push_str("# HELP gannet_load_response_quantile_seconds Response time from the intended instant.\n");
    out.push_str("# TYPE gannet_load_response_quantile_seconds gauge\n");
    metrics::quantiles(&mut out, "response", "verb=\"\",outcome=\"\"", &from_run::latencies(&live.response));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Control;
    use crate::session::Freedom;

    fn ask(addr: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn admin_sets_rate_on_both_paths_and_stops_the_run() {
        let (run_control, control) = (Arc::new(RunControl::default()), Arc::new(Control::new(10.0)));
        run_control.begin(&control, "open loop", Freedom::Free);
        let admin = Admin::start("127.0.0.1:0", run_control.clone()).unwrap();
        let addr = admin.addr();
        assert!(ask(addr, "PUT /rate HTTP/1.1\r\nContent-Length: 4\r\n\r\n2.5k").contains("2,500/s from now on"));
        assert_eq!(control.rate_per_s(), 2500.0);
        assert!(ask(addr, "PUT /ratelimit/700 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(ask(addr, "GET /rate HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n700\n"));
        assert!(ask(addr, "GET /metrics HTTP/1.1\r\n\r\n").contains("gannet_load_target_per_second 700\n"));
        assert!(ask(addr, "POST /quitquitquit HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(control.is_stopped() && run_control.is_stopped());
    }

    #[test]
    fn admin_rate_set_during_a_step_lasts_until_next_step() {
        let (run_control, first, second) =
            (Arc::new(RunControl::default()), Arc::new(Control::new(10.0)), Arc::new(Control::new(20.0)));
        run_control.begin(&first, "trial 1, step", Freedom::ThisRun);
        let admin = Admin::start("127.0.0.1:0", run_control.clone()).unwrap();
        let answer = ask(admin.addr(), "PUT /ratelimit/700 HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("until the next step"), "{answer}");
        assert_eq!(first.rate_per_s(), 700.0);
        run_control.begin(&second, "trial 2, step", Freedom::ThisRun);
        assert!(ask(admin.addr(), "GET /rate HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n20\n"));
        assert!(ask(admin.addr(), "POST /quitquitquit HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(second.is_stopped());
    }

    #[test]
    fn invalid_admin_request_is_rejected_without_effect() {
        let (run_control, control) = (Arc::new(RunControl::default()), Arc::new(Control::new(10.0)));
        run_control.begin(&control, "trial 1, rise", Freedom::Searching);
        let admin = Admin::start("127.0.0.1:0", run_control).unwrap();
        for (request, status) in [
            ("PUT /rate HTTP/1.1\r\nContent-Length: 4\r\n\r\nfast", "400"),
            ("PUT /rate HTTP/1.1\r\nContent-Length: 2\r\n\r\n5k", "409"),
            ("PUT /rate HTTP/1.1\r\nOrigin: http://x\r\nContent-Length: 2\r\n\r\n5k", "403"),
            ("DELETE /rate HTTP/1.1\r\n\r\n", "405"),
            ("GET /nothing HTTP/1.1\r\n\r\n", "404"),
            ("PUT /rate HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "413"),
            ("\x16\x03\x01\r\n\r\n", "400"),
        ] {
            let answer = ask(admin.addr(), request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        }
        assert_eq!(control.rate_per_s(), 10.0);
    }
}
