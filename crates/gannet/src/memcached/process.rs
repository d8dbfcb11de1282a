//! The flags of memcached that change the process itself: to go into the background, to become another user, a pid
//! file, larger limits.
//!
//! ```text
//!   started ── -d? ──> starts itself once more, detached ──> waits for a byte on its standard output ──> ends
//!                            │ limits, user, settings, server
//!                            └─ clients can connect: pid file, port file, the byte, standard streams to /dev/null
//! ```
//! A process that has threads cannot be forked safely, and a new one starts with none. All that is done here is done
//! before there is a second thread, since the kernel gives each thread a user of its own.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use io::listen::ListenAddr;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, getrlimit, getuid, setrlimit, setsid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

use super::refusal::{Refusal, code};

/// Set for the process that runs in the background.
const DETACHED: &str = "GANNET_DETACHED";
/// Names a file for the ports on which the server listens.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// Changes to this process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The user to become, if root starts it.
    pub user: Option<String>,
    /// The file for the process id.
    pub pid_file: Option<PathBuf>,
    /// It runs in the background.
    pub daemon: bool,
    /// Core files are as large as may be.
    pub core_files: bool,
    /// The number of times that `-v` was given.
    pub verbosity: u8,
}

/// This is the process in the background.
pub fn is_detached() -> bool {
    std::env::var_os(DETACHED).is_some()
}

fn is_root() -> bool {
    getuid().is_root() || geteuid().is_root()
}

impl Process {
    /// Root has to name a user, and there has to be such a user.
    pub fn check_user(&self) -> Result<(), Refusal> {
        self.wanted_user().map(|_| ())
    }

    fn wanted_user(&self) -> Result<Option<(Uid, Gid)>, Refusal> {
        if !is_root() {
            return Ok(None);
        }
        let name = self.user.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
            (code::USAGE, "root has to say which user to run as; write -u USER, or -u root to stay root".to_owned())
        })?;
        let ids = ids_of(name);
        ids.map(Some).ok_or_else(|| (code::NO_USER, format!("-u: there is no user {name}; `getent passwd` lists them")))
    }

    /// Starts this program once more in the background and waits until it serves.
    ///
    /// # Errors
    /// The code that it ended with; it has said why itself.
    pub fn detach(&self) -> Result<(), (u8, Option<String>)> {
        let failed = |error| (code::FAILED, Some(format!("-d: cannot start the background process: {error}")));
        let mut args = std::env::args_os();
        let name = args.next().unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from(&name));
        let mut command = Command::new(program);
        command.arg0(name).args(args).env(DETACHED, "1").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut byte = [0];
        let serves = child.stdout.take().is_some_and(|mut stdout| stdout.read_exact(&mut byte).is_ok());
        if serves {
            return Ok(());
        }
        let status = child.wait().map_err(failed)?;
        let line = status.code().is_none().then(|| format!("-d: the background process was ended ({status})"));
        Err((status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(code::FAILED), line))
    }

    /// Makes this process what the one in the background has to be, and raises its limits.
    pub fn begin(&self) -> Result<(), Refusal> {
        if self.daemon {
            let detached = setsid().map(|_| ());
            // A core file is written into the current folder, so that one is kept for it.
            let moved = if self.core_files { Ok(()) } else { rustix::process::chdir("/") };
            detached.and(moved).map_err(|error| (code::FAILED, format!("-d: cannot detach this process: {error}")))?;
        }
        if self.core_files {
            raise_core_limit()?;
        }
        Ok(())
    }

    /// Becomes the user that was asked for.
    pub fn become_user(&self) -> Result<(), Refusal> {
        let Some((user, group)) = self.wanted_user()? else { return Ok(()) };
        let name = self.user.as_deref().unwrap_or_default();
        match set_thread_groups(&[]) {
            // A process that may not change its groups has none to give up.
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err((code::SYSTEM, format!("-u: cannot leave the groups of root: {error}"))),
        }
        set_thread_gid(group)
            .and_then(|()| set_thread_uid(user))
            .map_err(|error| (code::SYSTEM, format!("-u: this process may not become {name} ({error})")))
    }

    /// Reports to the waiting process that clients can connect to `addrs`.
    pub fn up(&self, addrs: &[ListenAddr]) {
        if let Some(path) = std::env::var_os(PORT_FILE) {
            write_ports(Path::new(&path), addrs);
        }
        if let Some(path) = &self.pid_file {
            write_pid(path);
        }
        if self.daemon
            && let Err(error) = self.leave_terminal()
        {
            tracing::warn!(%error, "cannot leave the terminal");
        }
    }

    fn leave_terminal(&self) -> std::io::Result<()> {
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        if self.verbosity == 0 {
            rustix::stdio::dup2_stderr(&null)?;
        }
        rustix::stdio::dup2_stdin(&null)?;
        let waits = rustix::io::dup(rustix::stdio::stdout())?;
        rustix::stdio::dup2_stdout(&null)?;
        // The waiting process may have ended.
        let _ = rustix::io::write(&waits, b"\n");
        Ok(())
    }

    /// The server has ended.
    pub fn end(&self) {
        if let Some(path) = self.pid_file.as_ref().filter(|_| self.daemon)
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!("cannot remove the pid file {}: {error}", path.display());
        }
    }
}

/// User and group of `name`: from the file that every system has, or else from wherever the system looks.
fn ids_of(name: &str) -> Option<(Uid, Gid)> {
    let local = fs::read_to_string("/etc/passwd").ok().and_then(|text| ids_in(&text, name));
    local.or_else(|| {
        let output = Command::new("getent").args(["passwd", "--", name]).stdin(Stdio::null()).output().ok()?;
        ids_in(&String::from_utf8(output.stdout).ok()?, name)
    })
}

fn ids_in(text: &str, name: &str) -> Option<(Uid, Gid)> {
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut ids = line.split(':').skip(2).map(|id| id.parse::<u32>().ok());
    let (user, group) = (ids.next()??, ids.next()??);
    // The highest number means "none" to the kernel.
    (user != u32::MAX && group != u32::MAX).then(|| (Uid::from_raw(user), Gid::from_raw(group)))
}

fn raise_core_limit() -> Result<(), Refusal> {
    let most = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: None, maximum: None })
        .or_else(|_| setrlimit(Resource::Core, Rlimit { current: most, maximum: most }));
    match getrlimit(Resource::Core).current {
        Some(0) => Err((code::SYSTEM, "-r: core files are not allowed here; raise `ulimit -c`".to_owned())),
        _ => Ok(()),
    }
}

/// A reader never finds half a file: it is written under another name first.
fn replace(path: &Path, suffix: &str, text: &str) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(suffix);
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

fn write_pid(path: &Path) {
    let pid = std::process::id();
    let before = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok());
    if let Some(before) = before.filter(|before| *before != pid && Path::new(&format!("/proc/{before}")).exists()) {
        tracing::warn!("the pid file {} named process {before}, which runs", path.display());
    }
    if let Err(error) = replace(path, ".tmp", &format!("{pid}\n")) {
        tracing::error!("cannot write the pid file {}: {error}", path.display());
    }
}

fn write_ports(path: &Path, addrs: &[ListenAddr]) {
    let lines = addrs.iter().filter_map(|addr| match addr {
        ListenAddr::Tcp(addr) => Some(format!("TCP INET{}: {}\n", if addr.is_ipv6() { "6" } else { "" }, addr.port())),
        ListenAddr::Unix { .. } => None,
    });
    let text: String = lines.collect();
    if text.is_empty() {
        return;
    }
    if let Err(error) = replace(path, ".lck", &text) {
        tracing::error!("cannot write the ports to {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let text = "root:x:0:0:root:/root:/bin/sh\nmem:x:7:8::/:/bin/false\nmemcache:x:102:105:M,,,:/n:/bin/false\n";
        let found = |name| ids_in(text, name).map(|(user, group)| (user.as_raw(), group.as_raw()));
        assert_eq!((found("memcache"), found("mem")), (Some((102, 105)), Some((7, 8))));
        assert_eq!((found("memc"), found("x"), found("")), (None, None, None));
        assert_eq!(ids_in("bad:x:y:1:", "bad"), None);
        assert_eq!(ids_in("none:x:4294967295:1:", "none"), None);
        assert_eq!(ids_of("root").map(|(user, _)| user.is_root()), Some(true));
        assert_eq!(ids_of("no_such_user_here"), None);
    }
}
