//! The messages between coordinator and agents, and their encoding.
//!
//! ```text
//!   +------------------------+-------------+
//!   | "gannet-agent"  12 B   | version u16 |     once, from each side, before all frames
//!   +------------------------+-------------+
//!   | length u32  | JSON, length bytes     |     repeated; numbers are big-endian
//!   +-------------+------------------------+
//! ```
//!
//! History: 1 is the first version. Each side accepts only its own version.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{Config, Run};
use crate::measure::RawSlice;
use crate::result::Machine;

/// The first bytes that each side sends.
pub const MAGIC: [u8; 12] = *b"gannet-agent";
/// The version of the protocol.
pub const VERSION: u16 = 1;
/// Bytes of a preamble: magic and version.
pub const PREAMBLE_BYTES: usize = MAGIC.len() + 2;
/// The longest frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// The longest frame before the other side has proved that it has the token, in bytes.
pub const GREETING_BYTES_MAX: usize = 4 << 10;

const LENGTH_BYTES: usize = 4;

/// Returns the first bytes that a side sends.
pub fn preamble(version: u16) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&version.to_be_bytes());
    bytes
}

/// Returns the version in the first bytes of a side; `None` if they are not a preamble.
pub fn version(preamble: &[u8; PREAMBLE_BYTES]) -> Option<u16> {
    let (magic, version) = preamble.split_at(MAGIC.len());
    (magic == MAGIC).then(|| u16::from_be_bytes([version[0], version[1]]))
}

/// The kind of requests that an agent's threads send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRequests {
    /// The workload's requests.
    Requests,
    /// A write of every key.
    Prefill,
}

/// An agent's share of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The run's number. Messages of another run are stale.
    pub run: u64,
    /// The engine's configuration.
    pub config: Config,
    /// The requests to the server.
    pub kind: AgentRequests,
    /// The workload file. Its threads are the threads of all agents.
    pub workload: String,
    /// The initial rate of all agents together, in requests per second; 0 if there is none.
    pub rate_per_s: f64,
    /// Origin of times to live, in milliseconds since 1970.
    pub now_unix_ms: u64,
}

/// A message from a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// The coordinator's first message.
    Hello {
        /// 32 random bytes in hexadecimal.
        nonce: String,
    },
    /// Proof that the coordinator has the token.
    Proof {
        /// The proof in hexadecimal.
        proof: String,
    },
    /// Asks for the time of the agent's clock.
    Clock {
        /// Number of the question; the reply repeats it.
        number: u64,
    },
    /// Prepares a run.
    Prepare(Box<Prepare>),
    /// Starts the run.
    Start {
        /// The run's number.
        run: u64,
        /// Start time by the agent's clock, in nanoseconds.
        at_ns: u64,
    },
    /// Changes the rate of all agents.
    Rate {
        /// The run's number.
        run: u64,
        /// The new rate in requests per second.
        per_s: f64,
    },
    /// Ends the run soon, or cancels it before its start.
    Stop {
        /// The run's number.
        run: u64,
    },
    /// Shows that the coordinator is alive.
    Alive,
}

/// A message from an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToCoordinator {
    /// The agent's first message.
    Hello {
        /// 32 random bytes in hexadecimal.
        nonce: String,
        /// True if the agent has a token.
        has_token: bool,
    },
    /// Proof that the agent has the token too.
    Proof {
        /// The proof in hexadecimal.
        proof: String,
        /// The agent's build.
        program: String,
        /// The machine that the agent runs on.
        machine: Box<Machine>,
    },
    /// Refuses the coordinator or a request of it.
    Refused {
        /// The reason and the remedy.
        why: String,
    },
    /// The time of the agent's clock.
    Clock {
        /// Number of the question.
        number: u64,
        /// The agent's clock in nanoseconds.
        at_ns: u64,
        /// The agent's wall clock, in milliseconds since 1970.
        unix_ms: u64,
    },
    /// Reports that the agent's connections are established.
    Ready {
        /// The run's number.
        run: u64,
    },
    /// A complete slice of the timeline.
    Slice {
        /// The run's number.
        run: u64,
        /// The figures of all the agent's threads together.
        slice: Box<RawSlice>,
    },
    /// Reports the end of the run.
    Over {
        /// The run's number.
        run: u64,
        /// The measurements, without timelines of requests.
        measured: Box<Run>,
        /// Replies per second within the measured part.
        achieved_per_s: f64,
    },
    /// Reports that the run did not start, or ended early.
    Failed {
        /// The run's number.
        run: u64,
        /// The reason and the remedy.
        why: String,
    },
    /// Shows that the agent is alive.
    Alive,
}

/// An error in received bytes: an invalid frame, or a frame without a valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The frame is longer than the limit.
    TooLong {
        /// The frame's length in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The frame does not hold a known message; the reason in words.
    NoMessage(String),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "the peer sends a frame of {bytes} bytes; the limit is {bytes_max} bytes")
            }
            Self::NoMessage(what) => write!(f, "the peer sends an invalid message ({what})"),
        }
    }
}

impl std::error::Error for WireError {}

/// Returns the encoded frame of a message.
///
/// # Errors
/// If the frame is longer than [`FRAME_BYTES_MAX`], or if it contains a value that cannot be sent: the instants of a
/// trace.
pub fn frame<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(|error| WireError::NoMessage(error.to_string()))?;
    let length = bytes.len() - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(WireError::TooLong { bytes: length, bytes_max: FRAME_BYTES_MAX });
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Received bytes, split into frames. The buffer grows with the received bytes, never with an announced length.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    read: usize,
    bytes_max: usize,
}

impl Frames {
    /// Creates an empty buffer that accepts frames of at most `bytes_max` bytes.
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), read: 0, bytes_max }
    }

    /// Sets the longest accepted frame.
    pub const fn take_up_to(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the message of the next frame; `None` if it is incomplete.
    ///
    /// # Errors
    /// If the frame is too long or has no valid message; nothing after it can be read.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        let rest = &self.bytes[self.read..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.bytes_max {
            return Err(WireError::TooLong { bytes: length, bytes_max: self.bytes_max });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(|error| WireError::NoMessage(error.to_string()))?;
        self.read += LENGTH_BYTES + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Load, Sampler};
    use crate::schedule::{RateShape, SendPlan};

    fn messages() -> Vec<ToAgent> {
        let config = Config {
            targets: vec!["10.0.0.1:11211".parse().unwrap(), "unix:/run/a b.sock".parse().unwrap()],
            load: Load::Open(SendPlan::Rate { pace: crate::schedule::Spacing::Even, shape: RateShape::Flat }),
            sampler: Some(Sampler {
                target: "[::1]:1".parse().unwrap(),
                connections: 1,
                rate_per_s: 0.1,
                cpu: Some(3),
            }),
            requests_max: Some(u64::MAX),
            ..Config::default()
        };
        let workload = "name = \"ü\"\n".to_owned();
        let prepare = Prepare {
            run: 7,
            config,
            kind: AgentRequests::Prefill,
            workload,
            rate_per_s: 1e9 / 7.0,
            now_unix_ms: u64::MAX,
        };
        vec![ToAgent::Alive, ToAgent::Prepare(Box::new(prepare)), ToAgent::Start { run: 7, at_ns: u64::MAX }]
    }

    #[test]
    fn messages_round_trip_at_any_fragmentation() {
        let sent: Vec<u8> = messages().iter().flat_map(|message| frame(message).unwrap()).collect();
        for step in [1, 2, 3, 5, 64, sent.len()] {
            let (mut frames, mut got) = (Frames::new(FRAME_BYTES_MAX), Vec::new());
            for piece in sent.chunks(step) {
                frames.push(piece);
                while let Some(message) = frames.next_message::<ToAgent>().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, messages(), "in pieces of {step}");
        }
    }

    #[test]
    fn frame_length_is_checked_before_body_arrives_without_allocating() {
        let mut frames = Frames::new(GREETING_BYTES_MAX);
        frames.push(&(GREETING_BYTES_MAX as u32 + 1).to_be_bytes());
        let fault = frames.next_message::<ToAgent>().unwrap_err();
        assert_eq!(fault, WireError::TooLong { bytes: 4097, bytes_max: 4096 });
        let mut frames = Frames::new(FRAME_BYTES_MAX);
        frames.push(&(FRAME_BYTES_MAX as u32).to_be_bytes());
        assert_eq!(frames.next_message::<ToAgent>(), Ok(None));
        assert!(frames.bytes.capacity() < 1024);
    }

    #[test]
    fn invalid_message_body_is_an_error_not_a_panic() {
        for body in ["", "{", "null", "{\"start\":{\"run\":1}}", "{\"start\":{\"run\":-1,\"at-ns\":0}}", "{\"x\":1}"] {
            let mut frames = Frames::new(64);
            frames.push(&(body.len() as u32).to_be_bytes());
            frames.push(body.as_bytes());
            assert!(matches!(frames.next_message::<ToAgent>(), Err(WireError::NoMessage(_))), "{body}");
        }
    }

    #[test]
    fn a_trace_stays_where_it_was_read() {
        let trace = SendPlan::Trace { instants: crate::schedule::Instants::List([1, 2].into()), speed: 1.0 };
        let ToAgent::Prepare(mut prepare) = messages().remove(1) else { panic!("another message") };
        prepare.config.load = Load::Open(trace);
        assert!(matches!(frame(&ToAgent::Prepare(prepare)), Err(WireError::NoMessage(_))));
    }

    #[test]
    fn another_programs_first_bytes_are_no_version() {
        assert_eq!(version(&preamble(VERSION)), Some(VERSION));
        assert_eq!(version(&preamble(65_535)), Some(65_535));
        assert_eq!(version(b"GET / HTTP/1.1"), None);
    }
}
