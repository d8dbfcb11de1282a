//! The memory promise: whatever is stored, the process stays under `--memory` plus the stated constant.

use std::io::{Read, Write};

use crate::common::{Serving, TempFile, connect};

/// The stated constant: 16 MiB for the program, 17 MiB a worker for its buffers and histograms, and what its reactor
/// holds, which is 6 MiB more with io_uring.
fn constant_bytes(workers: u64, io: &str) -> u64 {
    let reactor = if io == "uring" { 6 } else { 0 };
    (16 + (17 + reactor) * workers) << 20
}

fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a process has it");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number of kB") << 10
}

fn locked_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmLck:")
}

/// Far more address space is reserved than is used: locking all of it would take the machine's memory. And what is
/// locked has to go back to the kernel when the memory is lowered.
#[test]
fn memory_that_is_locked_is_what_is_used_and_goes_back_when_it_is_lowered() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root may lock as much memory as it likes");
        return;
    }
    let file = TempFile::new("lock.toml", "[store]\nlock = true\n");
    let args = [file.path(), "--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "256MiB", "--workers", "1"];
    let mut serving = Serving::start(&args);
    let addr = serving.addr_behind("memcached clients connect to ");
    let pid = serving.pid();
    assert!(locked_bytes(pid) > 256 << 20, "nothing is locked: {}", locked_bytes(pid));
    assert!(resident_bytes(pid) < 128 << 20, "memory is resident before it is used: {}", resident_bytes(pid));
    let mut client = connect(addr);
    let value = vec![b'v'; 100_000];
    for number in 0..2000 {
        write!(client, "set key-{number} 0 0 {}\r\n", value.len()).expect("sends");
        client.write_all(&[&value[..], b"\r\n"].concat()).expect("sends");
        let mut stored = [0; 8];
        client.read_exact(&mut stored).expect("a reply");
    }
    let full = resident_bytes(pid);
    assert!(full > 180 << 20, "{full} bytes are resident with 200 MB of values");
    client.write_all(b"cache_memlimit 64\r\n").expect("sends");
    let begun = std::time::Instant::now();
    while resident_bytes(pid) > 120 << 20 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{} are still resident", resident_bytes(pid));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Five times the memory in values of every size and lifetime, by two clients at once; a sample after each batch.
fn fill_with_every_size_and_lifetime(io: &str) {
    let args = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB", "--workers", "2"];
    let mut serving = Serving::start(&[&args[..], &["--maxconns", "500", "--io", io]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let pid = serving.pid();
    let mut clients = [connect(addr), connect(addr)];
    let value = vec![b'v'; 1 << 20];
    let (mut sent, mut stored, mut highest) = (0u64, 0u64, 0);
    let mut random = base::prng::Prng::new(9);
    while sent < 5 * (64 << 20) {
        for client in &mut clients {
            let mut batch = Vec::new();
            let mut replies = 0;
            for _ in 0..100 {
                let bytes = match random.below(300) {
                    0 => random.below(900_000),
                    1..=9 => random.below(60_000),
                    10..=99 => random.below(4_000),
                    _ => random.below(200),
                } as usize;
                let ttl = [0, 1, 10, 300, 86_400][random.below(5) as usize];
                write!(batch, "set key-{} 0 {ttl} {bytes}\r\n", random.below(200_000)).expect("to memory");
                batch.extend_from_slice(&value[..bytes]);
                batch.extend_from_slice(b"\r\n");
                replies += 1;
            }
            sent += batch.len() as u64;
            client.write_all(&batch).expect("sends");
            let mut answers = vec![0; replies * b"STORED\r\n".len()];
            client.read_exact(&mut answers).expect("a reply to each");
            assert!(answers.chunks(8).all(|answer| answer == b"STORED\r\n"), "every value is stored");
            stored += replies as u64;
        }
        highest = highest.max(resident_bytes(pid));
    }
    let most = (64 << 20) + constant_bytes(2, io);
    assert!(highest <= most, "{highest} bytes were resident, {most} are promised ({stored} values stored)");
    assert!(highest > 64 << 20, "the memory was filled: {highest} bytes");
}

#[test]
fn no_mix_grows_the_process_past_the_promise_with_epoll() {
    fill_with_every_size_and_lifetime("epoll");
}

/// Where the kernel refuses io_uring this is epoll once more.
#[test]
fn no_mix_grows_the_process_past_the_promise_with_io_uring() {
    fill_with_every_size_and_lifetime("uring");
}
