//! `lab irq`: a worker is delayed because its CPU receives the packets of other programs.
//!
//! ```text
//!   network A                                network B
//!   Flood, on the last CPU ── veth pair ──>  rx-0: rps_cpus = the worker's CPU, or another ──> Sink
//!                                                    │ NET_RX
//!   this network                                     v
//!   Turns (the worker), pinned to the first CPU  <── waits while its CPU receives packets
//! ```

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::catalogue::Lab;
use super::ledger::{LabResource, command};
use super::outcome::{LabOutcome, LabPhase};
use super::part::{Done, LabPart, Role};
use super::phases::order;
use super::rounds::Turns;
use super::scene::{Scene, Unable, found};
use super::tally::TimeTally;

/// Rate and CPU time of the worker's requests, which use a tenth of its CPU. At a higher use, requests would queue
/// behind each other, and that delay could not be separated from the delay that packets cause.
const RATE_PER_S: f64 = 500.0;
const WORK: Duration = Duration::from_micros(200);
/// Packets per second. At this rate the receiving CPU has time to spare in both settings.
const PACKETS_PER_S: f64 = 200_000.0;
const _: () = assert!(PACKETS_PER_S * 1.5e-6 <= 0.5, "a packet takes the receiving CPU about 1.5 us");
/// Time for which packets are sent before and after the measurement of the worker.
const AROUND: Duration = Duration::from_millis(200);
/// Addresses from a range that is reserved for network tests.
const FROM: &str = "198.18.77.1/30";
const TO: &str = "198.18.77.2/30";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 2);
const PORT: u16 = 9;
/// The payload of a packet.
const PACKET: [u8; 18] = [0; 18];
/// Number of packets that are sent between two readings of the clock: the number that an interface delivers at once.
const BATCH: u32 = 64;

const SETTINGS: [&str; 2] = ["packets on another CPU", "packets on the worker's CPU"];
const FIGURES: [&str; 4] = ["p50_us", "p99_us", "p999_us", "packets_per_s"];

/// The work of the lab's process on whose socket packets arrive and are never read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sink {
    /// Time for which the receiver's socket stays open.
    pub time: Duration,
}

/// The work of the lab's process that sends packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flood {
    /// The CPU to which the sender is pinned.
    pub cpu: usize,
    /// Time for which the sender sends.
    pub time: Duration,
}

/// Holds a port open that accepts packets until its buffer is full.
pub fn sink(sink: &Sink) -> Result<Done, String> {
    let socket = UdpSocket::bind(SocketAddr::from((ADDRESS, PORT))).map_err(|error| format!("sink: {error}"))?;
    std::thread::sleep(sink.time);
    drop(socket);
    Ok(Done::default())
}

/// Sends packets at a fixed rate.
pub fn flood(flood: &Flood) -> Result<Done, String> {
    io::affinity::pin_this_thread(flood.cpu).map_err(|error| format!("CPU {}: {error}", flood.cpu))?;
    let failed = |error: std::io::Error| format!("flood: {error}");
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).map_err(failed)?;
    socket.connect(SocketAddr::from((ADDRESS, PORT))).map_err(failed)?;
    let each = Duration::from_secs_f64(f64::from(BATCH) / PACKETS_PER_S);
    let (mut sent, mut due, begun) = (0u64, Duration::ZERO, Instant::now());
    while begun.elapsed() < flood.time {
        // A packet is lost if a buffer is full or there is no receiver, as in any network.
        sent += (0..BATCH).filter(|_| socket.send(&PACKET).is_ok()).count() as u64;
        // A late sender does not send the missed packets as a burst.
        due = (due + each).max(begun.elapsed());
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let rate = sent as f64 / begun.elapsed().as_secs_f64();
    Ok(Done { counts: [("packets_per_s".to_owned(), rate)].into(), ..Done::default() })
}

/// The names of the two network namespaces.
struct NetworkPair {
    from: String,
    to: String,
}

impl NetworkPair {
    fn make(scene: &mut Scene<'_>) -> Result<Self, Unable> {
        if !rustix::process::geteuid().is_root() {
            return Err(Unable::Host("only root can create network namespaces; run the lab as root".to_owned()));
        }
        let wire = Self { from: scene.ledger.name_for("a"), to: scene.ledger.name_for("b") };
        for name in [&wire.from, &wire.to] {
            scene.ledger.will_make(LabResource::Network(name.clone())).map_err(Unable::Failed)?;
        }
        let (from, to) = (wire.from.as_str(), wire.to.as_str());
        for line in [
            &["netns", "add", from][..],
            &["netns", "add", to],
            // The pair of interfaces is created inside the namespaces, so that it is removed with them.
            &["-n", from, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", to],
            &["-n", from, "address", "add", FROM, "dev", "wire"],
            &["-n", to, "address", "add", TO, "dev", "wire"],
            &["-n", from, "link", "set", "wire", "up"],
            &["-n", to, "link", "set", "wire", "up"],
        ] {
            command("ip", line).map_err(|why| Unable::Host(format!("cannot create a network namespace: {why}")))?;
        }
        Ok(wire)
    }

    /// Makes `cpu` receive the packets.
    fn receive_on(&self, cpu: usize) -> Result<(), Unable> {
        let script = format!("echo {} > /sys/class/net/wire/queues/rx-0/rps_cpus", mask(cpu));
        let done = command("ip", &["netns", "exec", &self.to, "sh", "-c", &script]);
        done.map(drop).map_err(|why| Unable::Host(format!("cannot steer packets: {why}")))
    }
}

/// Returns a CPU as a mask in the kernel's format: words of 32 bits, the highest first.
fn mask(cpu: usize) -> String {
    let mut text = format!("{:x}", 1u64 << (cpu % 32));
    text.push_str(&",00000000".repeat(cpu / 32));
    text
}

pub fn run(scene: &mut Scene<'_>) -> Result<LabOutcome, Unable> {
    let cpus = io::affinity::usable_cpus().map_err(|error| Unable::Failed(error.to_string()))?;
    let (Some(&worker), Some(&other)) = (cpus.first(), cpus.last()) else {
        return Err(Unable::Failed("cannot find a CPU".to_owned()));
    };
    if worker == other {
        return Err(Unable::Host("the lab needs two CPUs".to_owned()));
    }
    let wire = NetworkPair::make(scene)?;
    let (mut phases, mut findings) = (Vec::new(), Vec::new());
    for (round, setting) in order(SETTINGS.len(), scene.wanted.rounds, scene.wanted.seed) {
        (scene.tell)(&format!("round {}: {}", round + 1, SETTINGS[setting]));
        wire.receive_on([other, worker][setting])?;
        let time = scene.wanted.phase;
        let start = |role: &Role, network: Option<&str>| LabPart::start(&scene.wanted.program, role, network);
        let mut sink = start(&Role::Sink(Sink { time: time + 4 * AROUND }), Some(&wire.to))?;
        let mut flood = start(&Role::Flood(Flood { cpu: other, time: time + 2 * AROUND }), Some(&wire.from))?;
        let seed = scene.wanted.seed ^ u64::from(round);
        let turns = Turns { cpu: Some(worker), rate_per_s: RATE_PER_S, work: WORK, time, seed };
        let mut turns = start(&Role::Turns(turns), None)?;
        sink.go()?;
        flood.go()?;
        std::thread::sleep(AROUND);
        let mut phase = LabPhase::begin(setting, round, scene.now_s());
        turns.go()?;
        if setting == 1 && findings.is_empty() {
            findings = found(Lab::Irq, "/", None, time / 2);
        }
        let done = turns.end(scene, &mut |_| {})?;
        phase.take(TimeTally::from(done.times));
        phase.figures.extend(flood.end(scene, &mut |_| {})?.counts);
        phases.push(phase);
    }
    let mut outcome = LabOutcome::of(Lab::Irq, scene, &SETTINGS, &FIGURES, phases);
    outcome.findings = findings;
    let p99 = outcome.against_first("p99_us", 1).cloned();
    outcome.is_shown = p99.as_ref().is_some_and(|compared| compared.is_higher());
    outcome.headline = match p99 {
        Some(compared) if compared.is_higher() => format!(
            "Shown: the worker's p99 is {:.2} ms if its CPU also receives other packets, and {:.2} ms if another CPU \
             receives them.",
            compared.mean_b / 1e3,
            compared.mean_a / 1e3
        ),
        _ => "Not shown: the worker's p99 is not clearly higher when its CPU receives packets. Run more rounds."
            .to_owned(),
    };
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_mask_is_written_in_comma_separated_32_bit_words() {
        assert_eq!([0, 1, 31, 32, 70].map(mask), ["1", "2", "80000000", "1,00000000", "40,00000000,00000000"]);
    }
}
