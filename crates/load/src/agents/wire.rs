//! What coordinator and agents say to one another, and its bytes.
//!
//! ```text
//!   +------------------------+-------------+
//!   | "gannet-agent"  12 B   | version u16 |     once, from each side, first of all
//!   +------------------------+-------------+
//!   | length u32  | JSON, length bytes     |     again and again; numbers are big-endian
//!   +-------------+------------------------+
//! ```
//!
//! History: 1 is the first version. A side takes its own version and no other.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{Config, Run};
use crate::measure::RawSlice;
use crate::result::Machine;

/// The first bytes of both sides.
pub const MAGIC: [u8; 12] = *b"gannet-agent";
/// The version of what follows.
pub const VERSION: u16 = 1;
/// Magic and version.
pub const PREAMBLE_BYTES: usize = MAGIC.len() + 2;
/// The longest frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// The longest frame before the other side has proved that it has the token, in bytes.
pub const GREETING_BYTES_MAX: usize = 4 << 10;

const LENGTH_BYTES: usize = 4;

/// The first bytes of a side.
pub fn preamble(version: u16) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&version.to_be_bytes());
    bytes
}

/// The version in the first bytes of a side; `None` if they are something else's.
pub fn version(preamble: &[u8; PREAMBLE_BYTES]) -> Option<u16> {
    let (magic, version) = preamble.split_at(MAGIC.len());
    (magic == MAGIC).then(|| u16::from_be_bytes([version[0], version[1]]))
}

/// The requests that an agent's threads send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRequests {
    /// The workload's requests.
    Requests,
    /// Every key's store.
    Prefill,
}

/// An agent's share of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The run's number; what concerns another run is stale.
    pub run: u64,
    /// The engine's configuration.
    pub config: Config,
    /// The requests to the server.
    pub kind: AgentRequests,
    /// The workload file. Its threads are those of all agents.
    pub workload: String,
    /// The rate of all agents at first, requests a second; 0: none.
    pub rate_per_s: f64,
    /// Origin of times to live, in milliseconds since 1970.
    pub now_unix_ms: u64,
}

/// A message of a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// First.
    Hello {
        /// 32 random bytes in hexadecimal.
        nonce: String,
    },
    /// It has the token.
    Proof {
        /// In hexadecimal.
        proof: String,
    },
    /// A question for the time on the agent's clock.
    Clock {
        /// Comes back with the answer.
        number: u64,
    },
    /// Get ready for a run.
    Prepare(Box<Prepare>),
    /// Start.
    Start {
        /// The run's number.
        run: u64,
        /// Time by the agent's clock, in nanoseconds.
        at_ns: u64,
    },
    /// The rate of all agents is another from now on.
    Rate {
        /// The run's number.
        run: u64,
        /// Requests a second.
        per_s: f64,
    },
    /// End the run soon, or do not begin it.
    Stop {
        /// The run's number.
        run: u64,
    },
    /// Nothing, but still there.
    Alive,
}

/// A message of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToCoordinator {
    /// First.
    Hello {
        /// 32 random bytes in hexadecimal.
        nonce: String,
        /// True if it has a token.
        has_token: bool,
    },
    /// It has the token too.
    Proof {
        /// In hexadecimal.
        proof: String,
        /// Its build.
        program: String,
        /// The machine that it runs on.
        machine: Box<Machine>,
    },
    /// It will not.
    Refused {
        /// Why, and the remedy.
        why: String,
    },
    /// The time on its clock.
    Clock {
        /// As asked.
        number: u64,
        /// Nanoseconds.
        at_ns: u64,
        /// Its wall clock, in milliseconds since 1970.
        unix_ms: u64,
    },
    /// Its connections are up.
    Ready {
        /// The run's number.
        run: u64,
    },
    /// A slice of the timeline is whole.
    Slice {
        /// The run's number.
        run: u64,
        /// All its threads together.
        slice: Box<RawSlice>,
    },
    /// The run is over.
    Over {
        /// The run's number.
        run: u64,
        /// Its measurements, without timelines of requests.
        measured: Box<Run>,
        /// Its answers a second that came within the measured part.
        achieved_per_s: f64,
    },
    /// The run was not, or not to its end.
    Failed {
        /// The run's number.
        run: u64,
        /// Why, and the remedy.
        why: String,
    },
    /// Nothing, but still there.
    Alive,
}

/// Bytes are no frame, or a frame no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireFault {
    /// A frame says that it is longer than is taken.
    TooLong {
        /// So many bytes.
        bytes: usize,
        /// That many are taken.
        bytes_max: usize,
    },
    /// A frame is not a message that is known; in words.
    NoMessage(String),
}

impl fmt::Display for WireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "it sends a frame of {bytes} bytes, and at most {bytes_max} are taken")
            }
            Self::NoMessage(what) => write!(f, "it sends what is no message ({what})"),
        }
    }
}

impl std::error::Error for WireFault {}

/// The bytes of a message's frame.
///
/// # Errors
/// When it is longer than [`FRAME_BYTES_MAX`], or holds what cannot be sent: a trace's instants.
pub fn frame<T: Serialize>(message: &T) -> Result<Vec<u8>, WireFault> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(|error| WireFault::NoMessage(error.to_string()))?;
    let length = bytes.len() - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(WireFault::TooLong { bytes: length, bytes_max: FRAME_BYTES_MAX });
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Bytes that come in, and the frames in them. Memory grows with what has come, whatever lengths say.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    read: usize,
    bytes_max: usize,
}

impl Frames {
    /// None yet; frames of at most `bytes_max` bytes are taken.
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), read: 0, bytes_max }
    }

    /// Takes frames of another length from now on.
    pub const fn take_up_to(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The message in the next frame; `None`: more bytes are wanted.
    ///
    /// # Errors
    /// When the frame is too long or no message; nothing that follows can be read then.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireFault> {
        let rest = &self.bytes[self.read..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.bytes_max {
            return Err(WireFault::TooLong { bytes: length, bytes_max: self.bytes_max });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(|error| WireFault::NoMessage(error.to_string()))?;
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
    fn messages_come_out_as_they_went_in_however_they_are_cut() {
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
    fn a_length_is_judged_before_its_bytes_come_and_takes_no_memory() {
        let mut frames = Frames::new(GREETING_BYTES_MAX);
        frames.push(&(GREETING_BYTES_MAX as u32 + 1).to_be_bytes());
        let fault = frames.next_message::<ToAgent>().unwrap_err();
        assert_eq!(fault, WireFault::TooLong { bytes: 4097, bytes_max: 4096 });
        let mut frames = Frames::new(FRAME_BYTES_MAX);
        frames.push(&(FRAME_BYTES_MAX as u32).to_be_bytes());
        assert_eq!(frames.next_message::<ToAgent>(), Ok(None));
        assert!(frames.bytes.capacity() < 1024);
    }

    #[test]
    fn what_is_no_message_is_a_fault_and_no_panic() {
        for body in ["", "{", "null", "{\"start\":{\"run\":1}}", "{\"start\":{\"run\":-1,\"at-ns\":0}}", "{\"x\":1}"] {
            let mut frames = Frames::new(64);
            frames.push(&(body.len() as u32).to_be_bytes());
            frames.push(body.as_bytes());
            assert!(matches!(frames.next_message::<ToAgent>(), Err(WireFault::NoMessage(_))), "{body}");
        }
    }

    #[test]
    fn a_trace_stays_where_it_was_read() {
        let trace = SendPlan::Trace { instants: crate::schedule::Instants::List([1, 2].into()), speed: 1.0 };
        let ToAgent::Prepare(mut prepare) = messages().remove(1) else { panic!("another message") };
        prepare.config.load = Load::Open(trace);
        assert!(matches!(frame(&ToAgent::Prepare(prepare)), Err(WireFault::NoMessage(_))));
    }

    #[test]
    fn another_programs_first_bytes_are_no_version() {
        assert_eq!(version(&preamble(VERSION)), Some(VERSION));
        assert_eq!(version(&preamble(65_535)), Some(65_535));
        assert_eq!(version(b"GET / HTTP/1.1"), None);
    }
}
