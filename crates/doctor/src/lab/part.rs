//! A part of a lab that runs as a separate process, so that it can be moved into a control group or a network.
//!
//! ```text
//!   lab                                     part: this program, with a hidden argument
//!    │ start ─────────────────────────────>  │  waits
//!    │ (moves it) "go" ───────────────────>  │  works
//!    │ <──────────────── lines: Note, Done ── │  ends
//! ```
//!
//! Invariants: a part ends when its lab ends, however the lab ends. Dropping a [`LabPart`] ends its process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::reclaim::work;
use super::scene::{Scene, Unable};
use super::tally::Pairs;
use super::{irq, rounds};

/// Interval at which the lab checks for a stop request.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The work of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Serves requests that each take some CPU.
    Turns(rounds::Turns),
    /// Receives packets without reading them.
    Sink(irq::Sink),
    /// Sends packets at a fixed rate.
    Flood(irq::Flood),
    /// Reads and replaces segments.
    Reclaim(Box<work::Work>),
}

/// The result of a part.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// The times that the part measured.
    pub times: Pairs,
    /// The part's counts, by names that end with their unit.
    pub counts: BTreeMap<String, f64>,
}

/// A line that a part writes.
#[derive(Debug, Serialize, Deserialize)]
enum PartReply {
    /// A note for the operator.
    Note(String),
    /// The preparation is done and the measurement begins.
    Ready,
    /// The part ends with success.
    Done(Done),
    /// The part failed.
    Failed(String),
}

/// A running part of a lab: the lab's handle of the part's process.
pub struct LabPart {
    child: Child,
    said: Receiver<PartReply>,
}

impl LabPart {
    /// Starts a part, which then waits for [`LabPart::go`]. The part runs in the network namespace `network`, if given.
    ///
    /// # Errors
    /// The reason, if the part does not start.
    pub fn start(program: &Path, role: &Role, network: Option<&str>) -> Result<Self, Unable> {
        let role = serde_json::to_string(role).expect("a role is plain JSON");
        let mut command = match network {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["doctor", "lab", "part", &role, &std::process::id().to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| Unable::Failed(format!("{}: {error}", program.display())))?;
        let out = child.stdout.take().expect("it is piped");
        let (tell, said) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            while out.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                let heard = serde_json::from_str(&line);
                line.clear();
                let invalid =
                    |_: serde_json::Error| PartReply::Failed("a process of the lab sent an invalid line".to_owned());
                if tell.send(heard.unwrap_or_else(invalid)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, said })
    }

    /// Returns the part's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the part begin.
    ///
    /// # Errors
    /// If the part has ended already.
    pub fn go(&mut self) -> Result<(), Unable> {
        let mut input = self.child.stdin.take().expect("it is let begin once");
        input
            .write_all(b"go\n")
            .map_err(|error| Unable::Failed(format!("a process of the lab ended before its work began ({error})")))
    }

    /// Waits until the part is ready, and passes on its notes. Calls `tick` several times per second with the time.
    ///
    /// # Errors
    /// [`Unable`]: if the part failed or the lab was asked to stop.
    pub fn until_ready(&mut self, scene: &mut Scene<'_>, tick: &mut dyn FnMut(f64)) -> Result<(), Unable> {
        match self.next(scene, tick)? {
            PartReply::Ready => Ok(()),
            said => Err(Unable::Failed(format!("a process of the lab sent {said:?} before it was ready"))),
        }
    }

    /// Waits until the part ends, passes on its notes and calls `tick` in the same way. Returns the part's results.
    ///
    /// # Errors
    /// [`Unable`]: if the part failed or the lab was asked to stop.
    pub fn end(mut self, scene: &mut Scene<'_>, tick: &mut dyn FnMut(f64)) -> Result<Done, Unable> {
        match self.next(scene, tick)? {
            PartReply::Done(done) => {
                let _ = self.child.wait();
                Ok(done)
            }
            said => Err(Unable::Failed(format!("a process of the lab sent {said:?} instead of its results"))),
        }
    }

    /// Returns the part's next message that is neither a note nor a failure.
    fn next(&mut self, scene: &mut Scene<'_>, tick: &mut dyn FnMut(f64)) -> Result<PartReply, Unable> {
        loop {
            scene.go_on()?;
            match self.said.recv_timeout(LOOK) {
                Ok(PartReply::Note(note)) => (scene.tell)(&note),
                Ok(PartReply::Failed(why)) => return Err(Unable::Failed(why)),
                Ok(said) => return Ok(said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                    return Err(Unable::Failed(format!("a part ended without a result ({how})")));
                }
            }
            tick(scene.now_s());
        }
    }
}

impl Drop for LabPart {
    fn drop(&mut self) {
        // An error means that the part has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(said: &PartReply) {
    let line = serde_json::to_string(said).expect("what is said is plain JSON") + "\n";
    // An error means that the lab no longer reads; the lab ends this part in that case.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Sends a note to the operator of the lab.
pub fn note(text: String) {
    say(&PartReply::Note(text));
}

/// Reports that the measurement begins.
pub fn ready() {
    say(&PartReply::Ready);
}

/// Runs as a part. `role` is the text that [`LabPart::start`] wrote, `lab` the process id of the lab.
///
/// # Errors
/// If a lab did not write these arguments, or has ended.
pub fn run(role: &str, lab: u32) -> Result<(), String> {
    let role: Role = serde_json::from_str(role).map_err(|error| format!("no part of a lab: {error}"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    if getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(lab) {
        return Err("the lab has ended".to_owned());
    }
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).map_err(|error| error.to_string())?;
    if word != "go\n" {
        return Err("the lab has ended".to_owned());
    }
    let done = match role {
        Role::Turns(turns) => rounds::serve(&turns),
        Role::Sink(sink) => irq::sink(&sink),
        Role::Flood(flood) => irq::flood(&flood),
        Role::Reclaim(work) => work::work(&work),
    };
    say(&done.map_or_else(PartReply::Failed, PartReply::Done));
    Ok(())
}
