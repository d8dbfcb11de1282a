//! Makes every thread of a running server try what an attacker would, with a debugger that injects system calls
//! (ptrace). The server itself has no code for this test.

use crate::common::{Serving, TempFile, connect, page, run};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;

/// Files below no folder that the settings name.
const OUTSIDE: [&str; 2] = ["/etc/passwd", "/usr/bin/env"];

/// Starts a server with threads of all kinds.
fn full_server(name: &str, extra: &[&str]) -> (Serving, TempFile) {
    let folder = TempFile::new(name, "");
    std::fs::remove_file(&folder.0).expect("a file");
    std::fs::create_dir(&folder.0).expect("a new folder");
    let at = |file: &str| folder.0.join(file).display().to_string();
    let (file, flash, settings) = (at("memory"), format!("{}:64MiB", at("flash")), at("settings.toml"));
    let args = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB"];
    let more = ["--file", &file, "--checkpoint", "1s", "--flash", &flash, "--workers", "2"];
    std::fs::write(at("users"), "user default on nopass ~* &* +@all\n").expect("written");
    let text = format!("[listen]\nacl_file = {:?}\n[log]\naudit = {:?}\n", at("users"), at("audit"));
    std::fs::write(&settings, text).expect("written");
    let server = Serving::start(&[&args[..], &more, extra, &[&settings]].concat());
    (server, folder)
}

fn metric(admin: SocketAddr, name: &str) -> u64 {
    let text = page(admin, "/metrics");
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect("the metric");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// Sends a Redis request as a line, and returns what is received first.
pub fn redis(addr: SocketAddr, line: &str) -> String {
    let mut stream = connect(addr);
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("sends");
    let mut room = [0; 4096];
    let bytes = stream.read(&mut room).expect("a reply");
    String::from_utf8_lossy(&room[..bytes]).into_owned()
}

#[test]
fn a_server_in_the_sandbox_serves_saves_and_reloads_and_refuses_nothing_of_its_own() {
    let (mut server, folder) = full_server("sandbox-serves", &[]);
    let resp = server.addr_behind("Redis clients connect to ");
    let admin = server.addr_behind("metrics are at http://");
    for (line, reply) in [
        ("SET k v", "+OK"),
        ("ACL SETUSER ann on >secret-word ~* +@read", "+OK"),
        ("ACL SAVE", "+OK"),
        ("ACL LOAD", "+OK"),
        ("CONFIG SET maxmemory 48mb", "+OK"),
        ("INFO everything", "$"),
        ("MEMORY DOCTOR", "$"),
        ("EVAL return(1) 0", ":1"),
    ] {
        let got = redis(resp, line);
        assert!(got.starts_with(reply), "{line}: {got}");
    }
    assert!(std::fs::read_to_string(folder.0.join("users")).expect("a file").contains("user ann"));
    server.signal("HUP");
    server.wait_for("reloaded");
    let audited = || std::fs::read_to_string(folder.0.join("audit")).is_ok_and(|text| text.contains("\"acl\""));
    (0..2000).find(|_| audited() || short_pause());
    assert!(audited(), "the audit log is written in the sandbox");
    assert_eq!(metric(admin, "gannet_sandbox_parts"), 2, "this kernel has Landlock and seccomp");
    assert_eq!(metric(admin, "gannet_sandbox_refused_calls_total"), 0);
    server.signal("TERM");
    assert!(server.ended().success());
    std::fs::remove_dir_all(&folder.0).expect("the folder");
}

#[test]
fn no_sandbox_restricts_nothing() {
    let mut server =
        Serving::start(&["--memcached", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB", "--no-sandbox"]);
    let admin = server.addr_behind("metrics are at http://");
    assert_eq!(metric(admin, "gannet_sandbox_parts"), 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a status");
    assert!(status.contains("Seccomp:\t0") && status.contains("NoNewPrivs:\t0"), "{status}");
    let (code, _, err) = run(&["serve", "--no-sandbox=1"]);
    assert_eq!(code, 2, "{err}");
}

/// Injection of system calls into the threads of another process.
#[cfg(target_arch = "x86_64")]
mod inject {
    use nix::libc::user_regs_struct;
    use nix::sys::ptrace;
    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::Pid;

    /// The result of an injected system call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Outcome {
        /// The filter raised SIGSYS.
        Refused,
        /// The kernel returned this value.
        Returned(i64),
    }

    /// A stopped thread. Continues when it is dropped, as if nothing had happened.
    pub struct Stopped {
        thread: Pid,
        before: user_regs_struct,
        /// The address of a `syscall` instruction.
        call_at: u64,
    }

    /// The bytes below the stack pointer that a function may use without moving it, and some more.
    const BELOW: u64 = 4096;
    /// The maximum number of instructions of a signal handler.
    const STEPS_MAX: usize = 100_000;

    fn wait(thread: Pid) -> Signal {
        match waitpid(thread, Some(WaitPidFlag::__WALL)).expect("a thread that is traced") {
            WaitStatus::Stopped(_, signal) => signal,
            other => panic!("{other:?}"),
        }
    }

    impl Stopped {
        /// Stops a thread that waits in a system call. Returns `None` if it runs or has ended.
        pub fn attach(thread: i32) -> Option<Self> {
            let thread = Pid::from_raw(thread);
            ptrace::attach(thread).ok()?;
            while wait(thread) != Signal::SIGSTOP {
                ptrace::cont(thread, None).ok()?;
            }
            let before = ptrace::getregs(thread).ok()?;
            let call_at = before.rip - 2;
            let code = ptrace::read(thread, call_at as ptrace::AddressType).ok()?;
            // The bytes of the instruction `syscall`.
            if code & 0xffff != 0x050f {
                let _ = ptrace::detach(thread, None);
                return None;
            }
            Some(Self { thread, before, call_at })
        }

        /// Writes a text below the stack, and returns its address.
        pub fn text(&self, text: &str) -> u64 {
            let at = (self.before.rsp - BELOW) & !7;
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(text.len() / 8 * 8 + 8, 0);
            for (word, part) in bytes.chunks(8).enumerate() {
                let value = i64::from_ne_bytes(part.try_into().expect("eight bytes"));
                let to = (at + 8 * word as u64) as ptrace::AddressType;
                ptrace::write(self.thread, to, value).expect("memory of the stack");
            }
            at
        }

        fn begin(&self, number: i64, args: [u64; 6]) -> Signal {
            let [rdi, rsi, rdx, r10, r8, r9] = args;
            let regs = user_regs_struct {
                rip: self.call_at,
                rax: number as u64,
                // The interrupted call is not restarted now.
                orig_rax: u64::MAX,
                rdi,
                rsi,
                rdx,
                r10,
                r8,
                r9,
                rsp: self.before.rsp - 2 * BELOW,
                ..self.before
            };
            ptrace::setregs(self.thread, regs).expect("registers");
            loop {
                ptrace::step(self.thread, None).expect("a stopped thread");
                let signal = wait(self.thread);
                let is_done = ptrace::getregs(self.thread).expect("registers").rip != self.call_at;
                // The trap of the step before may still be pending.
                if signal != Signal::SIGTRAP || is_done {
                    return signal;
                }
            }
        }

        /// Makes the thread execute a system call.
        pub fn call(&self, number: i64, args: [u64; 6]) -> Outcome {
            match self.begin(number, args) {
                Signal::SIGSYS => {
                    // The trap of the step is still pending. It would end the process when this test lets it go on.
                    ptrace::setregs(self.thread, self.before).expect("registers");
                    ptrace::step(self.thread, None).expect("a stopped thread");
                    assert_eq!(wait(self.thread), Signal::SIGTRAP);
                    Outcome::Refused
                }
                Signal::SIGTRAP => Outcome::Returned(ptrace::getregs(self.thread).expect("registers").rax as i64),
                other => panic!("{other}"),
            }
        }

        /// Makes the thread execute a system call that is refused, and the handler of the signal that follows. Returns
        /// the result that the handler has set.
        pub fn call_with_handler(&self, number: i64, args: [u64; 6]) -> i64 {
            assert_eq!(self.begin(number, args), Signal::SIGSYS);
            let mut signal = Some(Signal::SIGSYS);
            for _ in 0..STEPS_MAX {
                ptrace::step(self.thread, signal.take()).expect("a stopped thread");
                assert_eq!(wait(self.thread), Signal::SIGTRAP);
                let regs = ptrace::getregs(self.thread).expect("registers");
                if regs.rip == self.call_at + 2 {
                    return regs.rax as i64;
                }
            }
            panic!("the handler does not return");
        }
    }

    impl Drop for Stopped {
        fn drop(&mut self) {
            let _ = ptrace::setregs(self.thread, self.before);
            let _ = ptrace::detach(self.thread, None);
        }
    }
}

/// A system call: a name for the test, its number and its arguments.
#[cfg(target_arch = "x86_64")]
type TriedCall = (&'static str, i64, [u64; 6]);

/// The signal and network calls that no thread of a server may make once it serves.
#[cfg(target_arch = "x86_64")]
fn refused_to_all() -> Vec<TriedCall> {
    use nix::libc::*;
    let call = |what, number, args: &[c_int]| {
        let mut all = [0; 6];
        args.iter().zip(&mut all).for_each(|(arg, place)| *place = *arg as u64);
        (what, number, all)
    };
    vec![
        call("a TCP socket", SYS_socket, &[AF_INET, SOCK_STREAM, 0]),
        call("an MPTCP socket", SYS_socket, &[AF_INET, SOCK_STREAM, IPPROTO_MPTCP]),
        call("a UDP socket", SYS_socket, &[AF_INET6, SOCK_DGRAM, 0]),
        call("a raw socket", SYS_socket, &[AF_INET, SOCK_RAW, IPPROTO_ICMP]),
        call("a Unix socket", SYS_socket, &[AF_UNIX, SOCK_STREAM, 0]),
        call("a packet socket", SYS_socket, &[AF_PACKET, SOCK_RAW, 0]),
        call("a connection", SYS_connect, &[-1]),
        call("an address", SYS_bind, &[-1]),
        // A listener that is shut down for reading can connect.
        call("the shutdown of a listener", SYS_shutdown, &[-1, SHUT_RD]),
        call("the shutdown of both directions", SYS_shutdown, &[-1, SHUT_RDWR]),
        call("a signal 0 to another process", SYS_kill, &[1, 0]),
        call("a signal to a thread of another process", SYS_tgkill, &[1, 1, SIGTERM]),
        call("a signal to a thread", SYS_tkill, &[1, SIGTERM]),
        call("a descriptor of another process", SYS_pidfd_open, &[1, 0]),
        call("a signal by a descriptor", SYS_pidfd_send_signal, &[-1, SIGTERM]),
        call("the owner of a descriptor's signals", SYS_fcntl, &[0, F_SETOWN, 1]),
        call("a descriptor's signal", SYS_fcntl, &[0, 10, SIGTERM]),
        call("the priority of another process", SYS_setpriority, &[PRIO_PROCESS as c_int, 1, 19]),
        call("the priority of all processes", SYS_setpriority, &[PRIO_USER as c_int, 0, 19]),
        call("the CPUs of another process", SYS_sched_setaffinity, &[1, 8, 0]),
        call("the scheduler", SYS_sched_setscheduler, &[0, SCHED_BATCH, 0]),
        call("a mode by a path", SYS_chmod, &[0, 0o777]),
        call("a mode by a folder", SYS_fchmodat, &[-1, 0, 0o777]),
        call("a mode with flags", SYS_fchmodat2, &[-1, 0, 0o777]),
        call("the bit for the owner's rights", SYS_fchmod, &[-1, 0o4755]),
        call("an owner by a path", SYS_chown, &[0, 0, 0]),
        call("an owner", SYS_fchown, &[-1, 0, 0]),
        call("an owner by a folder", SYS_fchownat, &[-1, 0, 0, 0]),
        call("an attribute by a path", SYS_setxattr, &[0]),
        call("an attribute", SYS_fsetxattr, &[-1]),
    ]
}

/// The calls that are refused to all threads but those whose names are given.
#[cfg(target_arch = "x86_64")]
fn refused_except() -> Vec<(TriedCall, &'static [&'static str])> {
    use nix::libc::*;
    let (none, fast) = (u64::MAX, MSG_FASTOPEN as u64);
    // A resumed server starts its workers from its main thread.
    let workers: &[&str] = &["gannet", "worker-0", "worker-1"];
    vec![
        (("a ring", SYS_io_uring_setup, [1, 0, 0, 0, 0, 0]), &["gannet"]),
        (("the end of a process", SYS_pidfd_send_signal, [none, SIGKILL as u64, 0, 0, 0, 0]), &["gannet"]),
        (("a mode", SYS_fchmod, [none, 0o600, 0, 0, 0, 0]), &["gannet", "admin"]),
        (("a connection by sendto", SYS_sendto, [none, 0, 0, fast, 0, 0]), workers),
        (("a connection by sendmsg", SYS_sendmsg, [none, 0, fast, 0, 0, 0]), workers),
        (("a connection by sendmmsg", SYS_sendmmsg, [none, 0, 0, fast, 0, 0]), workers),
    ]
}

/// Waits until each thread is narrowed: it has the two filters of the process, that of its role, and workers one more.
#[cfg(target_arch = "x86_64")]
fn wait_until_narrowed(pid: u32) {
    let filters = |thread| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        line.and_then(|count| count.trim().parse::<u64>().ok())
    };
    let count = |name: &str| 3 + u64::from(name.starts_with("worker-"));
    // A thread that has just begun has the name of the main thread.
    let is_wide = |(name, thread): &(String, i32)| {
        filters(*thread) != Some(count(name)) || name == "gannet" && *thread as u32 != pid
    };
    let wide = || threads(pid).into_iter().find(is_wide);
    (0..1000).find(|_| wide().is_none() || short_pause());
    assert_eq!(wide(), None, "a thread has only the filters of the process");
}

/// Returns the threads of a process, by their names.
#[cfg(target_arch = "x86_64")]
fn threads(pid: u32) -> BTreeMap<String, i32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let thread = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?.trim().to_owned();
        Some((name, path.file_name()?.to_str()?.parse().ok()?))
    };
    folder.filter_map(thread).collect()
}

/// The kinds of threads, by their names.
#[cfg(target_arch = "x86_64")]
const KINDS: [&str; 9] =
    ["gannet", "worker-0", "worker-1", "acceptor", "background", "survey", "signals", "admin", "memory"];

/// Waits for a moment. Returns false.
fn short_pause() -> bool {
    std::thread::sleep(std::time::Duration::from_millis(5));
    false
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_thread_is_refused_programs_debuggers_bpf_and_files_outside_its_folders() {
    use inject::{Outcome, Stopped};
    use nix::libc::*;
    for io in ["epoll", "uring"] {
        let (mut server, folder) = full_server(&format!("sandbox-{io}"), &["--io", io]);
        server.is_refused = true;
        let resp = server.addr_behind("Redis clients connect to ");
        let admin = server.addr_behind("metrics are at http://");
        let mut tried = Vec::new();
        let waits = |thread| {
            (0..200).find_map(|_| {
                let stopped = Stopped::attach(thread);
                (stopped.is_some() || short_pause()).then_some(stopped).flatten()
            })
        };
        // A thread sets its name when it begins to run.
        let are_named = || KINDS.iter().all(|name| threads(server.pid()).contains_key(*name));
        (0..1000).find(|_| are_named() || short_pause());
        wait_until_narrowed(server.pid());
        for (name, thread) in threads(server.pid()) {
            let Some(stopped) = waits(thread) else { continue };
            let here = AT_FDCWD as u64;
            let program = stopped.text("/bin/true");
            let executable = (PROT_READ | PROT_EXEC) as u64;
            for (what, number, args) in [
                ("execve", SYS_execve, [program, 0, 0, 0, 0, 0]),
                ("execveat", SYS_execveat, [here, program, 0, 0, 0, 0]),
                ("fork", SYS_fork, [0; 6]),
                ("vfork by clone", SYS_clone, [(CLONE_VM | CLONE_VFORK | SIGCHLD) as u64, 0, 0, 0, 0, 0]),
                ("ptrace", SYS_ptrace, [0; 6]),
                ("bpf", SYS_bpf, [0; 6]),
                ("process_vm_readv", SYS_process_vm_readv, [1, 0, 0, 0, 0, 0]),
                ("a netlink socket", SYS_socket, [AF_NETLINK as u64, SOCK_RAW as u64, 0, 0, 0, 0]),
                (
                    "executable memory",
                    SYS_mmap,
                    [0, 4096, executable, (MAP_PRIVATE | MAP_ANONYMOUS) as u64, u64::MAX, 0],
                ),
                ("mount", SYS_mount, [program, program, 0, 0, 0, 0]),
                ("setuid", SYS_setuid, [0; 6]),
                ("a signal to another process", SYS_kill, [1, SIGTERM as u64, 0, 0, 0, 0]),
            ] {
                assert_eq!(stopped.call(number, args), Outcome::Refused, "{name}: {what}");
            }
            for (what, number, args) in refused_to_all() {
                assert_eq!(stopped.call(number, args), Outcome::Refused, "{name}: {what}");
            }
            for ((what, number, args), except) in refused_except() {
                let is_refused = stopped.call(number, args) == Outcome::Refused;
                assert_ne!(is_refused, except.contains(&&name[..]), "{name}: {what}");
            }
            for path in OUTSIDE {
                let path = stopped.text(path);
                let opened = stopped.call(SYS_openat, [here, path, O_RDONLY as u64, 0, 0, 0]);
                assert_eq!(opened, Outcome::Returned(-i64::from(EACCES)), "{name}: a file outside");
            }
            let inside = stopped.text("/proc/self/stat");
            let Outcome::Returned(opened) = stopped.call(SYS_openat, [here, inside, O_RDONLY as u64, 0, 0, 0]) else {
                panic!("{name}: a file inside is refused")
            };
            assert!(opened > 2, "{name}: {opened}");
            assert_eq!(stopped.call(SYS_close, [opened as u64, 0, 0, 0, 0, 0]), Outcome::Returned(0), "{name}");
            if name.starts_with("worker-") {
                let users = stopped.text(&folder.0.join("users").display().to_string());
                for (what, number, args) in [
                    ("a socket pair", SYS_socketpair, [AF_UNIX as u64, SOCK_STREAM as u64, 0, 0, 0, 0]),
                    ("a write to a file", SYS_openat, [here, users, O_WRONLY as u64, 0, 0, 0]),
                    ("a new file", SYS_openat, [here, users, O_CREAT as u64, 0, 0, 0]),
                    ("the removal of a file", SYS_unlinkat, [here, users, 0, 0, 0, 0]),
                ] {
                    assert_eq!(stopped.call(number, args), Outcome::Refused, "{name}: {what}");
                }
            }
            tried.push(name);
        }
        for name in KINDS {
            assert!(tried.iter().any(|tried| tried == name), "{name} is not among {tried:?}");
        }
        assert!(redis(resp, "PING").starts_with("+PONG"), "the server goes on");
        assert_eq!(metric(admin, "gannet_sandbox_refused_calls_total"), 0, "the handler did not run");
        let worker = waits(threads(server.pid())["worker-0"]).expect("a worker");
        let program = worker.text("/bin/true");
        for _ in 0..3 {
            assert_eq!(worker.call_with_handler(SYS_execve, [program, 0, 0, 0, 0, 0]), -i64::from(EPERM));
        }
        drop(worker);
        server.wait_for("the sandbox refused a system call");
        assert_eq!(metric(admin, "gannet_sandbox_refused_calls_total"), 3);
        server.signal("TERM");
        assert!(server.ended().success());
        std::fs::remove_dir_all(&folder.0).expect("the folder");
    }
}

/// The main thread of a server that no process can take over from never starts it again.
#[cfg(target_arch = "x86_64")]
#[test]
fn main_thread_keeps_nothing_of_the_start_if_the_server_cannot_resume() {
    use inject::{Outcome, Stopped};
    let mut server = Serving::start(&["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB"]);
    server.is_refused = true;
    wait_until_narrowed(server.pid());
    let stopped = Stopped::attach(threads(server.pid())["gannet"]).expect("the main thread waits");
    for (what, number, args) in refused_to_all().into_iter().chain(refused_except().into_iter().map(|(call, _)| call)) {
        assert_eq!(stopped.call(number, args), Outcome::Refused, "{what}");
    }
    drop(stopped);
    server.signal("TERM");
    assert!(server.ended().success());
}
