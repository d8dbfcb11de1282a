//! Tests memcached's flags: Debian's memcached and this program are started with the same flags, and what is visible
//! from outside is compared: exit codes, listening sockets, the mode of a socket's file, the pid file, settings with
//! the same meaning, and replies.

use crate::common::{PATIENCE, Serving, free_port};
use crate::peers::{Folder, until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Creates a link to this program with the name `memcached`. Returns its path.
fn link(folder: &Folder) -> PathBuf {
    let link = folder.path().join("memcached");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_gannet"), &link).unwrap();
    }
    link
}

/// The program that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Memcached,
    Gannet,
}

/// A process of one of the two programs.
pub struct Peer {
    child: Child,
    /// The id of the process that serves; `None` if it does not run.
    pub pid: Option<u32>,
    port: u16,
    folder: Folder,
}

impl Peer {
    /// Starts the program with `flags`, in which `{port}` and `{dir}` are replaced by its own, and waits until it
    /// serves or has ended.
    pub fn start(which: Which, name: &str, flags: &str) -> Self {
        let folder = Folder::new(&format!("{name}-{which:?}"));
        let port = free_port();
        let program = match which {
            Which::Memcached => PathBuf::from("memcached"),
            Which::Gannet => link(&folder),
        };
        let flags = flags.replace("{port}", &port.to_string()).replace("{dir}", folder.path().to_str().unwrap());
        let child = Command::new(program)
            .args(flags.split(' ').filter(|flag| !flag.is_empty()))
            .env("MEMCACHED_PORT_FILENAME", folder.path().join("ports"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("stderr")).unwrap())
            .spawn()
            .expect("memcached can be run: install the package memcached");
        let mut peer = Self { child, pid: None, port, folder };
        peer.wait(flags.split(' ').any(|flag| flag == "-d"));
        peer
    }

    /// Waits until the program serves or has ended. In the background, the pid file contains the id of the serving
    /// process.
    fn wait(&mut self, daemon: bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().unwrap();
            let pid = match daemon {
                false => ended.is_none().then(|| self.child.id()),
                true => ended.and(self.pid_file()).and_then(|text| text.trim().parse().ok()),
            };
            if pid.is_some() && self.connect().is_some() {
                self.pid = pid;
                return;
            }
            if ended.is_some_and(|status| !daemon || !status.success()) {
                return;
            }
            assert!(Instant::now() < end, "it neither serves nor ends: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn pid_file(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("pid")).ok()
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    /// Connects to the first socket that accepts a connection.
    pub fn connect(&self) -> Option<Box<dyn Stream>> {
        let socket = self.folder.path().join("sock");
        if let Ok(stream) = UnixStream::connect(socket) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            return Some(Box::new(stream));
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Box::new(stream))
    }

    /// Sends `request`, followed by a request for the version. Returns the reply up to the version.
    pub fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().expect("it serves");
        stream.write_all(format!("{request}version\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = stream.read(&mut part).expect("an answer in time");
            answer.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&answer);
            if read == 0 || text.ends_with("\r\n") && text.contains("VERSION ") {
                return text.split("VERSION ").next().unwrap_or_default().to_owned();
            }
        }
    }

    /// Returns `text` with values that differ between the two processes replaced by the same placeholders.
    fn same(&self, text: &str) -> String {
        text.replace(self.folder.path().to_str().unwrap(), "{dir}").replace(&self.port.to_string(), "{port}")
    }

    pub fn settings(&self) -> BTreeMap<String, String> {
        let lines = self.ask("stats settings\r\n");
        let fields = lines.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        fields.map(|(name, value)| (name.to_owned(), self.same(value))).collect()
    }

    /// Returns the sockets on which the process listens for clients, according to the kernel. This program also listens
    /// for a process that takes over, some time after clients can connect; memcached has no such socket.
    fn sockets(&self) -> BTreeSet<String> {
        let pid = self.pid.expect("it serves");
        let own: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        let mut found = BTreeSet::new();
        for (file, state, inode) in [("tcp", 3, 9), ("tcp6", 3, 9)] {
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap();
            for line in text.lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if fields[state] == "0A" && own.contains(fields[inode]) {
                    let (address, port) = fields[1].split_once(':').unwrap();
                    let port = u16::from_str_radix(port, 16).unwrap();
                    found.insert(format!("{file} {address} {}", self.same(&port.to_string())));
                }
            }
        }
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // The kernel marks a socket that accepts connections with this flag.
            let accepts = fields.len() > 7 && own.contains(fields[6]) && fields[3] == "00010000";
            if accepts && !fields[7].starts_with("@gannet-upgrade/") {
                found.insert(format!("unix {}", self.same(fields[7])));
            }
        }
        found
    }

    /// Returns the user, the group and the other groups of the process.
    fn user(&self) -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid.unwrap())).unwrap();
        text.lines()
            .filter(|l| ["Uid:", "Gid:", "Groups:"].iter().any(|n| l.starts_with(n)))
            .map(str::to_owned)
            .collect()
    }

    fn mode(&self) -> Option<u32> {
        let metadata = std::fs::metadata(self.folder.path().join("sock")).ok()?;
        Some(metadata.permissions().mode() & 0o7777)
    }

    pub fn signal(&self, name: &str) {
        let pid = self.pid.unwrap().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits until all processes of the program have ended. Returns the exit code of the process that was started.
    pub fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
            assert!(Instant::now() < end, "it does not end: {}", self.stderr());
        };
        while let Some(pid) = self.pid
            && runs(pid)
        {
            assert!(Instant::now() < end, "process {pid} does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.pid = None;
        code
    }
}

/// Returns whether a process with this id exists and has not ended.
fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| !text.contains(") Z "))
}

pub trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts both programs with the same flags.
fn both(name: &str, flags: &str) -> (Peer, Peer) {
    (Peer::start(Which::Memcached, name, flags), Peer::start(Which::Gannet, name, flags))
}

/// The visible effects of a flag, which are compared.
struct Case {
    flags: &'static str,
    /// Settings that must be equal, in addition to those in [`COMMON`].
    settings: &'static [&'static str],
    /// Requests whose replies must be equal.
    requests: &'static [&'static str],
}

const fn case(flags: &'static str, settings: &'static [&'static str], requests: &'static [&'static str]) -> Case {
    Case { flags, settings, requests }
}

/// Settings that have the same meaning in both programs, whatever the flags are.
const COMMON: [&str; 17] = [
    "maxbytes",
    "maxconns",
    "udpport",
    "evictions",
    "domain_socket",
    "umask",
    "shutdown_command",
    "stat_key_prefix",
    "cas_enabled",
    "tcp_backlog",
    "auth_enabled_sasl",
    "auth_enabled_ascii",
    "item_size_max",
    "flush_enabled",
    "dump_enabled",
    "idle_timeout",
    "ssl_enabled",
];

/// Requests that store, read and delete a value.
const STORES: &[&str] = &["set k 5 0 3\r\nabc\r\n", "get k\r\n", "delete k\r\n", "get k\r\n"];

static CASES: [Case; 26] = [
    case("-p {port}", &["tcpport", "inter", "detail_enabled", "maxconns_fast"], STORES),
    case("--port={port} -m 100 -l 127.0.0.1", &["tcpport", "inter"], &[]),
    case("-p{port} -l127.0.0.1 -c 500 -t 2", &["tcpport", "inter", "num_threads"], &[]),
    case("-l 127.0.0.1:{port}", &[], STORES),
    case("-l 127.0.0.1 -l ::1 -p {port}", &["tcpport"], &[]),
    case("-l 127.0.0.1,[::1]:{port} -p {port}", &["tcpport"], &[]),
    case("-l *:{port}", &[], &[]),
    case("-l ::,127.0.0.1 -p {port}", &[], &[]),
    case("-l localhost -p {port}", &["tcpport"], &[]),
    case("-s {dir}/sock", &[], STORES),
    case("-s {dir}/sock -a 0770", &[], &[]),
    case("-s {dir}/sock -a 777 -p {port}", &[], &[]),
    case("-p {port} -U 0 -B ascii", &[], &[]),
    case("-p {port} -A", &[], &["shutdown nonsense\r\n"]),
    case(
        "-p {port} -C",
        &[],
        &[
            "set k 0 0 1\r\na\r\ngets k\r\n",
            "cas k 0 0 1 0\r\nb\r\ncas k 0 0 1 9\r\nb\r\ncas none 0 0 1 9\r\nb\r\n",
            "mg k c v\r\nms k 1 C5 c\r\nz\r\nms k 1 c\r\nz\r\nms k 1 C5 I\r\nz\r\nms none 1 C4\r\nz\r\n",
            "set n 0 0 1\r\n1\r\nma n C7 v c\r\nma n v c\r\nmd n C7\r\ngats 0 n\r\nmd n\r\n",
        ],
    ),
    case(
        "-p {port} -D #",
        &["detail_enabled"],
        &[
            "set a#1 0 0 1\r\na\r\nget a#1 a#2\r\ngat 0 a#1 a#3\r\nstats detail dump\r\n",
            "touch a#1 0\r\nincr a#1 1\r\nmg a#1 v\r\nms a#1 1\r\nx\r\nmd a#1\r\nma a#1 N0\r\nstats detail dump\r\n",
            "add a#4 0 0 1\r\nx\r\nappend a#9 0 0 1\r\nx\r\ncas a#9 0 0 1 1\r\nx\r\nset a#5 0 0 9999999\r\n{big}\r\n",
            "delete a#4\r\ndelete a#4\r\nget noprefix\r\nstats detail dump\r\n",
            "stats detail off\r\nget a#1\r\nstats detail dump\r\nstats detail on\r\nget a#1#2\r\nstats detail dump\r\n",
            "stats reset\r\nstats detail dump\r\nstats detail\r\nstats detail nonsense\r\n",
        ],
    ),
    case(
        "-p {port}",
        &["detail_enabled"],
        &["stats detail dump\r\nstats detail on\r\nget a:1\r\nstats detail dump\r\n"],
    ),
    case("-p {port} -F", &[], &["flush_all\r\nflush_all 5\r\nflush_all noreply\r\n"]),
    case("-p {port} -X", &[], &["stats cachedump 1 1\r\nlru_crawler metadump all\r\n"]),
    case("-p {port} -W", &[], &["watch\r\nwatch fetchers\r\n"]),
    case(
        "-p {port} -b 77 -R 7",
        &["reqs_per_event"],
        &["get a\r\nget b\r\nget c\r\nget d\r\nget e\r\nget f\r\nget g\r\nget h\r\n"],
    ),
    case("-p {port} -I 2m", &[], &[]),
    case("-p {port} -I 512k -m 1024", &[], &[]),
    case("-p {port} -o idle_timeout=77,modern,maxconns_fast", &["maxconns_fast"], &[]),
    case("-p {port} -P {dir}/pid", &[], &[]),
    case("-p {port} -d -P {dir}/pid -vv", &[], STORES),
];

/// Compares files of both programs. The files may be written after clients can connect, so this waits until both exist.
fn alike<T: PartialEq + std::fmt::Debug>(flags: &str, ours: impl Fn() -> T, theirs: impl Fn() -> T) {
    let end = Instant::now() + PATIENCE;
    while ours() != theirs() {
        assert!(Instant::now() < end, "{flags}: {:?} instead of {:?}", ours(), theirs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_flag_has_the_same_effect_as_in_memcached() {
    let ipv6 = std::net::TcpListener::bind(("::1", 0)).is_ok();
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| ipv6 || !case.flags.contains("::")) {
        let flags = format!("{} -u nobody", case.flags);
        let (theirs, ours) = both(&format!("flag{number}"), &flags);
        assert!(theirs.pid.is_some() && ours.pid.is_some(), "{flags}: {} {}", theirs.stderr(), ours.stderr());
        assert_eq!(ours.sockets(), theirs.sockets(), "{flags}");
        assert!(!ours.sockets().is_empty(), "{flags}");
        assert_eq!((ours.mode(), ours.user()), (theirs.mode(), theirs.user()), "{flags}");
        let named =
            |peer: &Peer| peer.pid_file().map(|text| (text.ends_with('\n'), text.trim().parse().ok() == peer.pid));
        alike(&flags, || named(&ours), || named(&theirs));
        let ports =
            |peer: &Peer| std::fs::read_to_string(peer.folder.path().join("ports")).ok().map(|text| peer.same(&text));
        alike(&flags, || ports(&ours), || ports(&theirs));
        let (our, their) = (ours.settings(), theirs.settings());
        for name in COMMON.iter().chain(case.settings) {
            assert!(their.contains_key(*name), "memcached has no setting {name}");
            assert_eq!(our.get(*name), their.get(*name), "{flags}: {name}");
        }
        for request in case.requests {
            let request = request.replace("{big}", &"x".repeat(9_999_999));
            let shown = &request[..request.len().min(200)];
            assert_eq!(ours.ask(&request), theirs.ask(&request), "{flags}: {shown:?}");
        }
    }
}

#[test]
fn invalid_flags_exit_with_the_memcached_exit_code() {
    for (number, flags) in [
        "-Q",
        "--bogus",
        "-p",
        "-c 0",
        "-c x",
        "-t 0",
        "-R 0",
        "-f 1",
        "-n 0",
        "-I 100",
        "-I 600m -m 1024",
        "-m 1 -u nobody",
        "-m abc -u nobody",
        "-p 70000 -u nobody",
        "-p 99999999999 -u nobody",
        "-p -5 -l 127.0.0.1 -u nobody",
        "-c 1000000000 -u nobody",
        "-t x",
        "-R x",
        "-I x",
        "-B foo",
        "-o bogus",
        "-o hashpower",
        "-o hashpower=3",
        "-o hash_algorithm=md5",
        "-o idle_timeout",
        "-o ext_path",
        "-o ext_path=/no/such/folder/x",
        "-o ext_path=/no/such/folder/x:1g:foo",
        "-o ext_page_size",
        "-o ext_item_size=x",
        "-o ext_max_frag=x",
        "-u no_such_user_here",
        "-l 10.99.99.99 -u nobody -p {port}",
        "-l no.such.invalid -u nobody -p {port}",
        "-l 127.0.0.1:xx -u nobody -p {port}",
        "-l [::1 -u nobody -p {port}",
        "-s /no/such/folder/x -u nobody",
        "-V",
        "-h",
        "-i",
        "-dV",
    ]
    .into_iter()
    .enumerate()
    {
        let (mut theirs, mut ours) = both(&format!("code{number}"), flags);
        assert_eq!((ours.pid, theirs.pid), (None, None), "{flags}");
        let (our, their) = (ours.ended(), theirs.ended());
        assert_eq!(our, their, "{flags}: {}{}", theirs.stderr(), ours.stderr());
        assert!(their == Some(0) || !ours.stderr().is_empty(), "{flags}: nothing is said");
    }
    if is_root() {
        let (mut theirs, mut ours) = both("code-root", "-p {port}");
        assert_eq!((ours.ended(), theirs.ended()), (Some(64), Some(64)));
    }
}

#[test]
fn more_threads_than_the_memory_has_room_for_start_as_many_as_fit() {
    let mut ours = Peer::start(Which::Gannet, "threads", "-p {port} -u nobody -t 200 -m 64");
    assert_eq!(ours.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    let settings = ours.ask("stats settings\r\n");
    let threads = settings.lines().find_map(|line| line.strip_prefix("STAT num_threads ")).expect("a line");
    let threads: u32 = threads.trim().parse().expect("a number");
    assert!((20..128).contains(&threads), "{threads}");
    ours.signal("TERM");
    ours.ended();
    let warned = format!("-t: -m 64 has room for the segments of {threads} threads; {threads} start");
    assert!(ours.stderr().contains(&warned), "{}", ours.stderr());
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

#[test]
fn signals_and_the_shutdown_command_end_it_as_they_end_memcached() {
    for (number, (signal, daemon)) in
        [("TERM", false), ("INT", false), ("USR1", false), ("TERM", true), ("USR1", true)].into_iter().enumerate()
    {
        let flags = format!("-p {{port}} -u nobody -P {{dir}}/pid{}", if daemon { " -d" } else { "" });
        let (mut theirs, mut ours) = both(&format!("signal{number}"), &flags);
        for peer in [&theirs, &ours] {
            peer.signal("HUP");
            assert!(peer.ask("get k\r\n").starts_with("END"));
            peer.signal(signal);
        }
        assert_eq!((ours.ended(), theirs.ended()), (Some(0), Some(0)), "{signal} {daemon}");
        let left = |peer: &Peer| peer.pid_file().is_some();
        assert_eq!(left(&ours), left(&theirs), "{signal} {daemon}: the pid file");
    }
    let (mut theirs, mut ours) = both("shutdown", "-p {port} -u nobody -A");
    for peer in [&theirs, &ours] {
        peer.connect().unwrap().write_all(b"shutdown graceful\r\n").unwrap();
    }
    assert_eq!((ours.ended(), theirs.ended()), (Some(0), Some(0)));
}

#[test]
fn all_addresses_are_served_without_a_password_and_with_a_warning() {
    let user = if is_root() { "-u root" } else { "" };
    let mut peer = Peer::start(Which::Gannet, "open", &format!("-l 0.0.0.0 -p {{port}} {user}"));
    assert_eq!(peer.ask("get k\r\n"), "END\r\n");
    // The log is complete when the process has ended.
    peer.signal("TERM");
    peer.ended();
    let log = peer.stderr();
    assert!(log.contains("can be reached from other machines, and clients need no password"), "{log}");
}

#[test]
fn background_server_reports_the_reason_for_a_failed_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut peer = Peer::start(Which::Gannet, "taken", &format!("-d -l 127.0.0.1:{port} -u nobody"));
    assert_eq!((peer.pid, peer.ended()), (None, Some(71)));
    assert!(peer.stderr().contains("another process listens there"), "{}", peer.stderr());
}

#[test]
fn a_process_in_the_background_leaves_its_terminal_and_folder() {
    let (theirs, ours) = both("detached", "-d -p {port} -u nobody -P {dir}/pid");
    let seen = |peer: &Peer| {
        let pid = peer.pid.unwrap();
        let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let session: u32 = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().parse().unwrap();
        let streams = ["fd/0", "fd/1", "fd/2"].map(link);
        (session == pid, link("cwd"), streams)
    };
    assert_eq!(seen(&ours), seen(&theirs));
    assert_eq!(seen(&ours).1, Path::new("/"));
}

#[test]
fn a_limit_of_open_files_that_memcached_can_do_with_is_enough() {
    let folder = Folder::new("files");
    let port = free_port();
    let line = format!("ulimit -n 1024; exec {} -p {port} -u nobody", link(&folder).display());
    let mut command = Command::new("setpriv");
    // The program runs without the capability to raise the limit.
    command.args(["--bounding-set=-sys_resource", "--inh-caps=-sys_resource", "bash", "-c", &line]);
    if !is_root() {
        command = Command::new("bash");
        command.args(["-c", &line]);
    }
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| line.contains("the limit of 1024 open files allows"));
    // The warning comes before the server listens.
    until("the server", || TcpStream::connect(("127.0.0.1", port)).is_ok() || child.try_wait().unwrap().is_some());
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.is_some() && ended.is_none(), "{said:?} {ended:?}");
}

/// Lines that unauthenticated clients send, one at a time, each after the reply to the previous line.
static STRANGERS: [&[&str]; 9] = [
    &["get a\r\n", "version\r\n", "quit\r\n", "\r\n", "mn\r\n", "stats\r\n"],
    &[
        "set a 0 0\r\n",
        "set a 0 0 x\r\n",
        "set a 0 0 -1\r\n",
        "SET a 0 0 1\r\n",
        "gets a 0 0 12\r\n",
        "add a 0 0 12\r\n",
    ],
    &["set a 0 0 12\r\nalice wrongx\r\n", "set a 0 0 12\r\nalice secret\r\n", "get a\r\n"],
    &["set a 0 0 12 noreply\r\nalice secret\r\n", "get a\r\n", "set a 0 0 1\r\nx\r\n", "get a\r\n"],
    &["set a x y 12\nalice secret\r\n", "get a\r\n"],
    &["set a 0 0 3\r\nabc\r\n", "set a 0 0 0\r\n\r\n", "set a 0 0 6\r\ncarol \r\n", "set a 0 0 1999\r\n{long}\r\n"],
    &["set a 0 0 13\r\nbob pass word\r\n", "set a 0 0 8\r\nbob pass\r\n", "set a 0 0 8\r\nbob a:b:\r\n"],
    &["set a 0 0 18\r\nalice secret extra\r\n", "get a\r\n"],
    &["set a 0 0 15\r\n  alice  secret\r\n", "mn\r\n"],
];

#[test]
fn strangers_are_answered_as_memcached_answers_them() {
    let users = Folder::new("users");
    let path = users.path().join("users");
    std::fs::write(&path, "alice:secret\r\nbob:pass word\ncarol:\ndave:a:b\n").unwrap();
    let flags = format!("-p {{port}} -u nobody -Y {}", path.display());
    let (theirs, ours) = both("strangers", &format!("{flags} -vvv"));
    let line = |stream: &mut Box<dyn Stream>, request: &str| {
        stream.write_all(request.replace("{long}", &"x".repeat(1999)).as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Every reply in this test ends with one of these lines, which occur nowhere else in it.
        while ["END\r\n", "STORED\r\n", "MN\r\n"].iter().all(|end| !answer.ends_with(end.as_bytes()))
            && !(answer.starts_with(b"CLIENT_ERROR") && answer.ends_with(b"\r\n"))
        {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer in time");
            answer.push(byte[0]);
        }
        String::from_utf8(answer).unwrap()
    };
    let mut stored = 0;
    for requests in STRANGERS {
        let (mut their, mut our) = (theirs.connect().unwrap(), ours.connect().unwrap());
        for request in requests {
            let answer = line(&mut our, request);
            stored += u32::from(answer == "STORED\r\n");
            assert_eq!(answer, line(&mut their, request), "{requests:?}: {request:?}");
        }
    }
    assert_eq!(stored, 6, "clients were let in");
    let known = |peer: &Peer, user: &str| {
        let mut stream = peer.connect().unwrap();
        let answer = line(&mut stream, &format!("set a 0 0 {}\r\n{user}\r\n", user.len()));
        (answer == "STORED\r\n").then_some(stream)
    };
    let counted = |peer: &Peer| {
        let mut stream = known(peer, "dave a:b").expect("dave is known");
        let stats = line(&mut stream, "stats\r\n");
        let lines = stats.lines().filter(|line| line.starts_with("STAT auth_")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(counted(&ours), counted(&theirs));
    // A refused file changes nothing. An accepted file changes the set of known users.
    for (text, user, told) in
        [("broken", "alice secret", "the previous users remain"), ("erin:new\n", "erin new", "users were read")]
    {
        std::fs::write(&path, text).unwrap();
        for peer in [&theirs, &ours] {
            peer.signal("HUP");
            let end = Instant::now() + PATIENCE;
            while known(peer, user).is_none() || (peer.port == ours.port && !ours.stderr().contains(told)) {
                assert!(Instant::now() < end, "{user} is not known");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    for peer in [&theirs, &ours] {
        assert!(known(peer, "alice secret").is_none());
    }
    let said = ours.stderr();
    for secret in ["secret", "pass word", "a:b", "new\n", "wrongx", "broken"] {
        assert!(!said.contains(secret), "{secret:?} was logged: {said}");
    }
}

#[test]
fn unauthenticated_oversized_request_closes_its_connection() {
    let users = Folder::new("closes");
    let path = users.path().join("users");
    std::fs::write(&path, "alice:secret\n").unwrap();
    let ours = Peer::start(Which::Gannet, "closes", &format!("-p {{port}} -u nobody -Y {}", path.display()));
    let rest = |bytes: &[u8]| {
        let mut stream = ours.connect().unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert_eq!(rest(&[b'x'; 3000]), "");
    assert_eq!(rest(b"set a 0 0 2049\r\n"), "CLIENT_ERROR bad authentication token format\r\n");
    assert_eq!(rest(b"set a 0 0 4294967295\r\n"), "CLIENT_ERROR bad authentication token format\r\n");
    // Debian's memcached ends with a segmentation fault at the first of these lengths.
    for length in ["2147483647", "4294967296", "18446744073709551616", "99999999999999999999999999"] {
        let answer = rest(format!("set a 0 0 {length}\r\nxxx\r\n").as_bytes());
        assert_eq!(answer, "CLIENT_ERROR bad authentication token format\r\n", "{length}");
    }
    // Requests that arrive together are replied to one by one.
    let mut stream = ours.connect().unwrap();
    stream.write_all(b"get a\r\nset a 0 0 12\r\nalice secretxx\r\nset a 0 0 12\r\nalice secret\r\nget a\r\n").unwrap();
    let expected = "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR bad command line termination\r\n\
                    CLIENT_ERROR unauthenticated\r\nSTORED\r\nEND\r\n";
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), expected);
}

#[test]
fn invalid_user_file_stops_the_start_as_in_memcached() {
    let users = Folder::new("faults");
    for (number, text) in ["\n", "abc\n", "a:b\n\n", "a:b\nsecret\n"].into_iter().enumerate() {
        let path = users.path().join("users");
        std::fs::write(&path, text).unwrap();
        let flags = format!("-p {{port}} -u nobody -Y {}", path.display());
        let (mut theirs, mut ours) = both(&format!("fault{number}"), &flags);
        assert_eq!((ours.ended(), theirs.ended()), (Some(1), Some(1)), "{text:?}");
        assert!(ours.stderr().contains("is not user:password") && !ours.stderr().contains("secret"));
    }
    let (mut theirs, mut ours) = both("fault-none", "-p {port} -u nobody -Y /no/such/file");
    assert_eq!((ours.ended(), theirs.ended()), (Some(1), Some(1)));
    let (mut theirs, mut ours) = both("fault-auto", "-p {port} -u nobody -Y /no/such/file -B auto");
    assert_eq!((ours.ended(), theirs.ended()), (Some(64), Some(64)));
}

#[test]
fn serve_lets_in_whom_its_file_names() {
    let users = Folder::new("serve");
    let path = users.path().join("users");
    std::fs::write(&path, "alice:secret\n").unwrap();
    let path = path.to_str().unwrap();
    let mut serving =
        Serving::start(&["--memory", "64MiB", "--memcached", "127.0.0.1:0", "--admin", "none", "--auth-file", path]);
    let mut stream = crate::common::connect(serving.addr_behind("memcached clients connect to "));
    crate::common::ask(&mut stream, b"get a\r\n", b"CLIENT_ERROR unauthenticated\r\n");
    crate::common::ask(&mut stream, b"set a 0 0 12\r\nalice secret\r\nget a\r\n", b"STORED\r\nEND\r\n");
}

#[test]
fn full_store_without_eviction_refuses_writes_and_retains_items() {
    let (theirs, ours) = both("keeps", "-p {port} -u nobody -M -m 64");
    assert_eq!(ours.settings()["evictions"], "off");
    assert_eq!(theirs.settings()["evictions"], "off");
    let value = "v".repeat(40_000);
    let set = |key: &str| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    for peer in [&theirs, &ours] {
        let refusal = "SERVER_ERROR out of memory storing object\r\n";
        // Segments are freed in the background, so a store that refused a value may take the next one.
        let (mut count, mut refusals) = (0, 0);
        while refusals < 20 {
            match peer.ask(&set(&format!("k{count}"))) {
                answer if answer == "STORED\r\n" => (count, refusals) = (count + 1, 0),
                answer => {
                    assert_eq!(answer, refusal);
                    refusals += 1;
                }
            }
        }
        assert!((1000..2000).contains(&count), "{count} values in 64 MiB");
        // When a value is refused, the old value of the key is deleted, and no part of the new value is stored.
        assert_eq!(peer.ask(&set("k7")), refusal);
        assert_eq!(peer.ask("get k7\r\n"), "END\r\n");
        for key in (0..count).filter(|key| *key != 7) {
            assert!(peer.ask(&format!("touch k{key} 0\r\n")) == "TOUCHED\r\n", "k{key} of {count} went");
        }
        assert!(peer.ask("stats\r\n").contains("STAT evictions 0\r\n"));
        // memcached has a separate size class for large values, with some free memory.
        if peer.port == ours.port {
            assert_eq!(peer.ask(&format!("set large 0 0 900000\r\n{}\r\n", "l".repeat(900_000))), refusal);
        }
        for key in (0..count).step_by(2) {
            peer.ask(&format!("delete k{key} noreply\r\n"));
        }
        let end = Instant::now() + PATIENCE;
        while peer.ask(&set("again")) == refusal {
            assert!(Instant::now() < end, "what was deleted is not had again");
        }
    }
}
