//! The greeting of agents and coordinators. Each side sends its version, then a proof that it has the token. The token
//! itself is never sent.
//!
//! ```text
//!   proof = HMAC-SHA-256(token, role | nonce of the coordinator | nonce of the agent)      role: the prover's role
//! ```
//!
//! Without a token, the HMAC uses an empty key: both sides prove that they have none.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use super::wire::{
    FRAME_BYTES_MAX, Frames, GREETING_BYTES_MAX, PREAMBLE_BYTES, ToAgent, ToCoordinator, VERSION, frame, preamble,
    version,
};
use crate::result::Machine;

/// Time limit for a greeting.
const GREETING: Duration = Duration::from_secs(5);
/// Time limit for a peer to accept written bytes.
const WRITE: Duration = Duration::from_secs(10);
/// Time for which one read blocks before the caller's time limit is checked.
const LOOK: Duration = Duration::from_millis(200);
/// Largest number of bytes taken by one read.
const READ_BYTES: usize = 64 << 10;
const NONCE_BYTES: usize = 32;

/// The sending side of a connection. Each frame is sent whole, whichever thread sends it.
#[derive(Debug)]
pub(super) struct Sender(Mutex<TcpStream>);

impl Sender {
    /// Sends `message`. Returns the reason in words if that fails.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), String> {
        let bytes = frame(message).map_err(|fault| fault.to_string())?;
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(&bytes).map_err(|error| format!("cannot write to the connection ({error})"))
    }

    /// Closes the connection; its reader sees the end.
    pub fn close(&self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).shutdown(std::net::Shutdown::Both);
    }
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(super) struct Receiver {
    stream: TcpStream,
    frames: Frames,
    buffer: Vec<u8>,
}

impl Receiver {
    /// Returns the next message. `wait` is called several times a second and returns an error when the wait must end.
    ///
    /// # Errors
    /// Returns a reason in words if the connection is closed, if the peer sends invalid data, or if the wait has ended.
    pub fn read<T: DeserializeOwned>(&mut self, wait: &mut dyn FnMut() -> Result<(), String>) -> Result<T, String> {
        loop {
            if let Some(message) = self.frames.next_message().map_err(|fault| fault.to_string())? {
                return Ok(message);
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err("the peer closed the connection".to_owned()),
                Ok(count) => self.frames.push(&self.buffer[..count]),
                Err(error) if is_a_wait(&error) => wait()?,
                Err(error) => return Err(format!("the connection failed ({error})")),
            }
        }
    }
}

fn is_a_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A greeted connection to an agent or to a coordinator.
pub(super) type Link = (Sender, Receiver);

/// Returns a wait that ends at `deadline`.
fn until(deadline: Instant) -> impl FnMut() -> Result<(), String> {
    move || if Instant::now() < deadline { Ok(()) } else { Err("the peer did not reply within 5 s".to_owned()) }
}

fn open(stream: TcpStream) -> Result<Link, String> {
    let set = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(LOOK)))
        .and_then(|()| stream.set_write_timeout(Some(WRITE)))
        .and_then(|()| stream.try_clone());
    let reading = set.map_err(|error| format!("cannot configure the socket ({error})"))?;
    let frames = Frames::new(GREETING_BYTES_MAX);
    Ok((Sender(Mutex::new(stream)), Receiver { stream: reading, frames, buffer: vec![0; READ_BYTES] }))
}

/// Sends this side's preamble with the version `spoken`.
fn introduce(sender: &Sender, spoken: u16) -> Result<(), String> {
    let mut stream = sender.0.lock().unwrap_or_else(PoisonError::into_inner);
    stream.write_all(&preamble(spoken)).map_err(|error| format!("cannot write to the connection ({error})"))
}

/// Returns the version of the other side. Returns the first bytes that it sent instead if they are not a preamble.
fn introduced(receiver: &mut Receiver, deadline: Instant) -> Result<Result<u16, Vec<u8>>, String> {
    let (mut bytes, mut wait) = ([0; PREAMBLE_BYTES], until(deadline));
    let mut filled = 0;
    while filled < bytes.len() {
        match receiver.stream.read(&mut bytes[filled..]) {
            Ok(0) if filled > 0 => return Ok(Err(bytes[..filled].to_vec())),
            Ok(0) => return Err("the peer closed the connection".to_owned()),
            Ok(count) => filled += count,
            // Fewer bytes than a preamble, followed by silence, belong to another protocol.
            Err(error) if is_a_wait(&error) => match wait() {
                Err(_) if filled > 0 => return Ok(Err(bytes[..filled].to_vec())),
                waited => waited?,
            },
            Err(error) => return Err(format!("the connection failed ({error})")),
        }
    }
    Ok(version(&bytes).ok_or(bytes.to_vec()))
}

fn nonce() -> Result<String, String> {
    let mut bytes = [0; NONCE_BYTES];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| format!("cannot read /dev/urandom ({error})"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter_map(|digit| (digit as char).to_digit(16).map(|d| d as u8)).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const COORDINATOR: &str = "coordinator";
const AGENT: &str = "agent";

fn mac(token: Option<&[u8]>, role: &str, nonces: [&str; 2]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.unwrap_or_default()).expect("a key may have any length");
    for part in [role, nonces[0], nonces[1]] {
        mac.update(part.as_bytes());
        mac.update(b"\n");
    }
    mac
}

fn prove(token: Option<&[u8]>, role: &str, nonces: [&str; 2]) -> String {
    hex(&mac(token, role, nonces).finalize().into_bytes())
}

fn is_proved(token: Option<&[u8]>, role: &str, nonces: [&str; 2], proof: &str) -> bool {
    mac(token, role, nonces).verify_slice(&bytes_of(proof)).is_ok()
}

/// An agent's description of its program and machine.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// The agent's build.
    pub program: String,
    /// The machine that the agent runs on.
    pub machine: Machine,
}

/// Greets the agent at the other end of `stream`.
///
/// # Errors
/// Returns the reason in words, with the remedy.
pub(super) fn agent(stream: TcpStream, token: Option<&[u8]>) -> Result<(Link, About), String> {
    let (sender, mut receiver) = open(stream)?;
    let deadline = Instant::now() + GREETING;
    introduce(&sender, VERSION)?;
    match introduced(&mut receiver, deadline)? {
        Ok(VERSION) => {}
        Ok(other) => {
            return Err(format!(
                "the peer uses protocol version {other}, and this build uses {VERSION}; use the same build on all hosts"
            ));
        }
        Err(said) => {
            let said = String::from_utf8_lossy(&said).trim_end().escape_debug().to_string();
            return Err(format!("this is not an agent (it replied \"{said}\"); start one there: gannet load agent"));
        }
    }
    let mine = nonce()?;
    sender.send(&ToAgent::Hello { nonce: mine.clone() })?;
    let (theirs, has_token) = match receiver.read(&mut until(deadline))? {
        ToCoordinator::Hello { nonce, has_token } => (nonce, has_token),
        other => return Err(unexpected(&other)),
    };
    if has_token != token.is_some() {
        let who =
            if has_token { "the agent requires a token, and this command has none" } else { "the agent has no token" };
        return Err(format!("{who}; give the same --token FILE to the agent and --agents-token FILE here"));
    }
    let nonces = [mine.as_str(), theirs.as_str()];
    sender.send(&ToAgent::Proof { proof: prove(token, COORDINATOR, nonces) })?;
    match receiver.read(&mut until(deadline + GREETING))? {
        ToCoordinator::Proof { proof, program, machine } if is_proved(token, AGENT, nonces, &proof) => {
            receiver.frames.take_up_to(FRAME_BYTES_MAX);
            Ok(((sender, receiver), About { program, machine: *machine }))
        }
        ToCoordinator::Proof { .. } => {
            Err("the agent does not have the token; check which program listens at this address".to_owned())
        }
        other => Err(unexpected(&other)),
    }
}

fn unexpected(message: &ToCoordinator) -> String {
    match message {
        ToCoordinator::Refused { why } => why.clone(),
        _ => "the peer sent greeting messages in the wrong order".to_owned(),
    }
}

/// Greets the coordinator at the other end of `stream`. `seat` is called after the coordinator has proved that it has
/// the token; an error of `seat` is sent as the refusal.
///
/// # Errors
/// Returns the reason in words.
pub(super) fn coordinator<S>(
    stream: TcpStream,
    token: Option<&[u8]>,
    about: &About,
    seat: impl FnOnce() -> Result<S, String>,
) -> Result<(Link, S), String> {
    let (sender, mut receiver) = open(stream)?;
    let deadline = Instant::now() + GREETING;
    match introduced(&mut receiver, deadline)? {
        Ok(VERSION) => introduce(&sender, VERSION)?,
        Ok(other) => {
            introduce(&sender, VERSION)?;
            return Err(format!("the peer uses protocol version {other}, and this build uses {VERSION}"));
        }
        Err(_) => return Err("the peer is not a coordinator".to_owned()),
    }
    let refuse = |why: String| {
        let _ = sender.send(&ToCoordinator::Refused { why: why.clone() });
        Err(why)
    };
    let theirs = match receiver.read(&mut until(deadline))? {
        ToAgent::Hello { nonce } => nonce,
        _ => return refuse("the peer sent greeting messages in the wrong order".to_owned()),
    };
    let mine = nonce()?;
    sender.send(&ToCoordinator::Hello { nonce: mine.clone(), has_token: token.is_some() })?;
    let nonces = [theirs.as_str(), mine.as_str()];
    match receiver.read(&mut until(deadline))? {
        ToAgent::Proof { proof } if is_proved(token, COORDINATOR, nonces, &proof) => {}
        ToAgent::Proof { .. } => {
            return refuse(
                "the tokens differ; pass the same file to the agent's --token and to --agents-token".to_owned(),
            );
        }
        _ => return refuse("the peer sent greeting messages in the wrong order".to_owned()),
    }
    let seat = match seat() {
        Ok(seat) => seat,
        Err(why) => return refuse(why),
    };
    let (program, machine) = (about.program.clone(), Box::new(about.machine.clone()));
    sender.send(&ToCoordinator::Proof { proof: prove(token, AGENT, nonces), program, machine })?;
    receiver.frames.take_up_to(FRAME_BYTES_MAX);
    Ok(((sender, receiver), seat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_role_token_and_nonces_alone() {
        let (token, nonces) = (Some(&b"secret"[..]), ["aa", "bb"]);
        let proof = prove(token, COORDINATOR, nonces);
        assert!(is_proved(token, COORDINATOR, nonces, &proof));
        assert!(!is_proved(token, AGENT, nonces, &proof), "the coordinator's proof is not valid as the agent's proof");
        assert!(!is_proved(Some(b"other"), COORDINATOR, nonces, &proof));
        assert!(!is_proved(None, COORDINATOR, nonces, &proof));
        assert!(!is_proved(token, COORDINATOR, ["aab", "b"], &proof));
        assert!(!is_proved(token, COORDINATOR, nonces, &proof[..62]));
        assert!(!is_proved(token, COORDINATOR, nonces, ""));
    }

    #[test]
    fn nonces_are_new_each_time_and_hexadecimal_reads_back() {
        let (one, other) = (nonce().unwrap(), nonce().unwrap());
        assert!(one != other && one.len() == 64);
        assert_eq!(hex(&bytes_of(&one)), one);
    }
}
