//! A server's own statistics: memcached's `stats`, RESP's `INFO`, or an admin port's `/metrics`.
//!
//! Each source has its own connection and is read at the recorder's pace. The length and time of a reply are limited.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::time::Duration;

use super::{FigureReading, Source, Unit};
use link::tls::{Failure, Maker, TlsClient, TlsSettings};
use link::{Address, ServerStream};

/// Largest reply in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Time limit for a server's reply during a run.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Time limit for the first reply of a server, before the run. A busy machine may be late.
const MEET_PATIENCE: Duration = Duration::from_secs(5);
/// Number of readings that are skipped after a failed one.
const REST_READINGS: u32 = 4;

/// The command that returns the server's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// `stats`, on the port that clients use.
    Stats,
    /// `INFO`, on the port that clients use.
    Info,
    /// `GET /metrics`, on an admin port.
    Metrics,
}

/// A server that reports its own statistics.
pub struct ObservedServer {
    address: String,
    account: Account,
    tls: Option<Maker>,
    rest: u32,
}

/// Recorded figures of `stats`: the name in `stats`, the name of the timeline, the unit.
const STATS: [(&str, &str, Unit); 12] = [
    ("rusage_user", "CPU reported by the server/user", Unit::SecondsSpent),
    ("rusage_system", "CPU reported by the server/system", Unit::SecondsSpent),
    ("cmd_get", "commands per second/get", Unit::PerSecond),
    ("cmd_set", "commands per second/set", Unit::PerSecond),
    ("get_misses", "misses per second", Unit::PerSecond),
    ("evictions", "evictions per second", Unit::PerSecond),
    ("curr_connections", "connections", Unit::Count),
    ("listen_disabled_num", "connections refused per second", Unit::PerSecond),
    ("conn_yields", "connection yields per second", Unit::PerSecond),
    ("curr_items", "items", Unit::Count),
    ("bytes", "bytes stored", Unit::Bytes),
    ("lrutail_reflocked", "locked tail items per second", Unit::PerSecond),
];

/// Recorded figures of `INFO`: the name in `INFO`, the name of the timeline, the unit.
const INFO: [(&str, &str, Unit); 11] = [
    ("used_cpu_user", "CPU reported by the server/user", Unit::SecondsSpent),
    ("used_cpu_sys", "CPU reported by the server/system", Unit::SecondsSpent),
    ("total_commands_processed", "commands per second/all", Unit::PerSecond),
    ("keyspace_misses", "misses per second", Unit::PerSecond),
    ("evicted_keys", "evictions per second", Unit::PerSecond),
    ("connected_clients", "connections", Unit::Count),
    ("blocked_clients", "clients blocked", Unit::Count),
    ("rejected_connections", "connections refused per second", Unit::PerSecond),
    ("used_memory", "bytes stored", Unit::Bytes),
    ("total_net_output_bytes", "bytes sent per second", Unit::PerSecond),
    ("latest_fork_usec", "duration of the latest fork, us", Unit::Count),
];

/// Recorded figures of `/metrics`: the name in `/metrics`, the name of the timeline, the unit. Series that differ in
/// labels other than `worker` are added.
const METRICS: [(&str, &str, Unit); 14] = [
    ("gannet_cpu_seconds_total", "CPU reported by the server/all", Unit::SecondsSpent),
    ("gannet_worker_ops_total", "operations per second by worker", Unit::PerSecond),
    ("gannet_worker_turns_total", "event-loop iterations per second by worker", Unit::PerSecond),
    ("gannet_worker_parked_total", "operations parked per second", Unit::PerSecond),
    ("gannet_worker_buffer_waits_total", "waits for a buffer per second", Unit::PerSecond),
    ("gannet_worker_sends_short_total", "short sends per second", Unit::PerSecond),
    ("gannet_session_yields_total", "connection yields per second", Unit::PerSecond),
    ("gannet_connections", "connections", Unit::Count),
    ("gannet_connections_rejected_total", "connections refused per second", Unit::PerSecond),
    ("gannet_evicted_total", "evictions per second", Unit::PerSecond),
    ("gannet_slow_requests_total", "slow requests per second", Unit::PerSecond),
    ("gannet_items", "items", Unit::Count),
    ("gannet_item_bytes", "bytes stored", Unit::Bytes),
    ("gannet_background_slices_long_total", "long background slices per second", Unit::PerSecond),
];

impl ObservedServer {
    /// Creates the source for the server at `address` (`HOST:PORT` or `unix:PATH`).
    pub fn new(address: &str, account: Account) -> Self {
        Self { address: address.to_owned(), account, tls: None, rest: 0 }
    }

    /// Returns the source with TLS for connections by TCP.
    #[must_use]
    pub fn secured(self, tls: Option<&TlsClient>) -> Self {
        let maker = |client: &TlsClient| Some(client.maker(&[self.address.parse().ok()?], 1));
        Self { tls: tls.and_then(maker), ..self }
    }

    /// Returns the statistics as text; `None` if they cannot be read.
    pub fn text(&self) -> Option<String> {
        self.fetch(PATIENCE).ok().flatten()
    }

    /// Reads the statistics as text within `patience`; `None` if the server replies with something else.
    fn fetch(&self, patience: Duration) -> std::io::Result<Option<String>> {
        let request: &[u8] = match self.account {
            Account::Stats => b"stats\r\n",
            Account::Info => b"*1\r\n$4\r\nINFO\r\n",
            // Gannet's admin port accepts this name, whatever name the user has for its host.
            Account::Metrics => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        };
        let address: Address = self.address.parse().map_err(|_| ErrorKind::NotFound)?;
        ask(ServerStream::connect(&address, self.tls.as_ref(), patience)?, request, self.account)
    }

    /// Returns the server's description of itself.
    pub fn describe(&self) -> Option<String> {
        self.name_in(&self.text()?)
    }

    /// Returns the server's description, as [`Self::describe`] does, and reports a failure of TLS.
    ///
    /// # Errors
    /// If TLS fails. No other failure is an error here.
    pub fn meet(&self) -> Result<Option<String>, Failure> {
        match (self.fetch(MEET_PATIENCE), &self.tls) {
            (Ok(text), _) => Ok(text.and_then(|text| self.name_in(&text))),
            (Err(error), Some(_)) if error.kind() == ErrorKind::ConnectionReset => Err(Failure::closed()),
            (Err(error), Some(_)) => failure(&error).cloned().map_or(Ok(None), Err),
            (Err(error), None) if error.kind() == ErrorKind::ConnectionReset && self.speaks_tls() => {
                Err(Failure::wanted())
            }
            (Err(error), None) => failure(&error).cloned().map_or(Ok(None), Err),
        }
    }

    /// Returns whether a handshake succeeds, without verifying the server's identity.
    fn speaks_tls(&self) -> bool {
        let Ok(client) = TlsClient::new(&TlsSettings { insecure: true, ..TlsSettings::default() }) else {
            return false;
        };
        let asked = Self::new(&self.address, self.account).secured(Some(&client));
        // An alert that refuses the client is TLS too.
        asked
            .fetch(MEET_PATIENCE)
            .map_or_else(|error| failure(&error).is_some_and(|failure| failure.name != "tls-not-spoken"), |_| true)
    }

    fn name_in(&self, text: &str) -> Option<String> {
        match self.account {
            Account::Stats => Some(format!("memcached protocol, version {}", stat(text, "version")?)),
            Account::Info => {
                let known =
                    ["valkey_version", "redis_version"].into_iter().find_map(|name| Some((name, info(text, name)?)));
                known.map(|(name, version)| format!("{} {version}", name.trim_end_matches("_version")))
            }
            Account::Metrics => None,
        }
    }
}

/// Returns the TLS failure in `error`. A connection closed during the handshake may have another cause.
fn failure(error: &std::io::Error) -> Option<&Failure> {
    Failure::in_error(error).filter(|failure| failure.name != "tls-closed")
}

/// Returns an error if `line` is the reply of a Gannet server to a client without TLS.
fn wants_tls(line: &str) -> std::io::Result<()> {
    if line.contains("this port uses TLS") { Err(std::io::Error::other(Failure::wanted())) } else { Ok(()) }
}

/// Sends `request` and reads the whole reply; `None` if it is of another kind.
fn ask(mut stream: impl Read + Write, request: &[u8], account: Account) -> std::io::Result<Option<String>> {
    stream.write_all(request)?;
    let mut reader = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    let mut text = String::new();
    match account {
        Account::Metrics => {
            reader.read_to_string(&mut text)?;
            let parts = text.split_once("\r\n\r\n");
            let good = parts.filter(|(head, _)| head.lines().next().is_some_and(|line| line.contains(" 200")));
            Ok(good.map(|(_, body)| body.to_owned()))
        }
        Account::Stats => {
            while !text.ends_with("END\r\n") {
                // A server that requires a user and a password replies differently.
                let line_from = text.len();
                if reader.read_line(&mut text)? == 0 || !text[line_from..].starts_with(['S', 'E']) {
                    return Ok(None);
                }
                if text[line_from..].starts_with("ERROR") {
                    return Ok(None);
                }
                wants_tls(&text[line_from..])?;
            }
            Ok(Some(text))
        }
        Account::Info => {
            reader.read_line(&mut text)?;
            wants_tls(&text)?;
            let Some(bytes) = text.strip_prefix('$').and_then(|digits| digits.trim().parse::<u64>().ok()) else {
                return Ok(None);
            };
            let mut body = String::new();
            reader.take(bytes).read_to_string(&mut body)?;
            Ok(Some(body))
        }
    }
}

fn stat<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    lines.filter(|(known, _)| *known == name).map(|(_, value)| value.trim()).next()
}

fn info<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(known, _)| *known == name).map(|(_, value)| value.trim()).next()
}

/// Parses the figures in the statistics.
pub fn readings(account: Account, text: &str) -> Vec<FigureReading> {
    let known = |table: &[(&str, &str, Unit)], of: fn(&'_ str, &str) -> Option<f64>| {
        let found =
            table.iter().filter_map(|(name, ours, unit)| Some(FigureReading::new(*ours, *unit, of(text, name)?)));
        found.collect()
    };
    match account {
        Account::Stats => known(&STATS, |text, name| stat(text, name)?.parse().ok()),
        Account::Info => known(&INFO, |text, name| info(text, name)?.parse().ok()),
        Account::Metrics => metrics(text),
    }
}

fn metrics(text: &str) -> Vec<FigureReading> {
    let mut readings: Vec<FigureReading> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let Some((_, ours, unit)) = METRICS.iter().find(|(known, _, _)| *known == name) else { continue };
        let worker = labels.split_once("worker=\"").and_then(|(_, rest)| rest.split('"').next());
        let name = match worker {
            Some(worker) if ours.ends_with("by worker") => format!("{ours}/{worker}"),
            _ => (*ours).to_owned(),
        };
        match readings.iter_mut().find(|reading| reading.name == name) {
            Some(reading) => reading.value += value,
            None => readings.push(FigureReading::new(name, *unit, value)),
        }
    }
    readings
}

impl Source for ObservedServer {
    fn whose(&self) -> &'static str {
        "server"
    }

    fn read(&mut self) -> Vec<FigureReading> {
        if self.rest > 0 {
            self.rest -= 1;
            return Vec::new();
        }
        let Some(text) = self.text() else {
            self.rest = REST_READINGS;
            return Vec::new();
        };
        readings(self.account, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn value(readings: &[FigureReading], name: &str) -> Option<f64> {
        readings.iter().find(|reading| reading.name == name).map(|reading| reading.value)
    }

    #[test]
    fn each_account_is_read() {
        let stats = readings(Account::Stats, "STAT pid 1\r\nSTAT cmd_get 17\r\nSTAT rusage_user 1.5\r\nEND\r\n");
        assert_eq!(
            (value(&stats, "commands per second/get"), value(&stats, "CPU reported by the server/user")),
            (Some(17.0), Some(1.5))
        );
        let info = readings(Account::Info, "# CPU\r\nused_cpu_sys:2.25\r\nevicted_keys:3\r\n");
        assert_eq!(
            (value(&info, "CPU reported by the server/system"), value(&info, "evictions per second")),
            (Some(2.25), Some(3.0))
        );
        let metrics = "# HELP x\ngannet_worker_ops_total{worker=\"0\"} 5\ngannet_worker_ops_total{worker=\"1\"} 6\n\
                       gannet_background_slices_long_total{kind=\"evict\"} 1\n\
                       gannet_background_slices_long_total{kind=\"grow\"} 2\n";
        let metrics = readings(Account::Metrics, metrics);
        assert_eq!(value(&metrics, "operations per second by worker/1"), Some(6.0));
        assert_eq!(value(&metrics, "long background slices per second"), Some(3.0));
        assert!(readings(Account::Stats, "garbage").is_empty());
    }

    /// Starts a server that sends one reply on each connection.
    fn answering(answers: Vec<&'static [u8]>) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 256];
                let _ = stream.read(&mut request);
                stream.write_all(answer).unwrap();
            }
        });
        (address, thread)
    }

    #[test]
    fn a_server_that_answers_otherwise_leaves_a_gap() {
        let (address, thread) = answering(vec![
            b"STAT version 1.6.18\r\nEND\r\n",
            b"CLIENT_ERROR unauthenticated\r\n",
            b"-NOAUTH Authentication required.\r\n",
            b"$26\r\n# Server\r\nredis_version:7\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\n\r\nno",
        ]);
        let server = |account| ObservedServer::new(&address, account);
        assert_eq!(server(Account::Stats).describe().as_deref(), Some("memcached protocol, version 1.6.18"));
        assert_eq!(server(Account::Stats).text(), None);
        assert_eq!(server(Account::Info).text(), None);
        assert_eq!(server(Account::Info).describe().as_deref(), Some("redis 7"));
        assert_eq!(server(Account::Metrics).text(), None);
        thread.join().unwrap();
        let mut gone = server(Account::Stats);
        assert!(gone.read().is_empty() && gone.rest == REST_READINGS);
    }
}
