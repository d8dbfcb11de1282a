//! memcached's flags that change the process itself: background, user, pid file and limits.
//!
//! ```text
//!   process ── -d? ──> starts itself again, detached ──> waits for a byte on that process's output ──> ends
//!                            │ limits, user, settings, server
//!                            └─ clients can connect: pid file, port file, the byte, standard streams to /dev/null
//! ```
//! A process with threads cannot be forked safely, so the program is started as a new process. The user is changed
//! before the second thread starts, because the kernel stores the user per thread.

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

/// Environment variable that is set for the background process.
const DETACHED: &str = "GANNET_DETACHED";
/// Environment variable with the name of a file for the server's ports.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// The settings of memcached's flags that change the process itself.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// User to run as, if root starts the process.
    pub user: Option<String>,
    /// The file for the process id.
    pub pid_file: Option<PathBuf>,
    /// True to run in the background.
    pub daemon: bool,
    /// True to raise the limit on core files.
    pub core_files: bool,
    /// The number of times that `-v` was given.
    pub verbosity: u8,
}

/// Returns whether this is the background process.
pub fn is_detached() -> bool {
    std::env::var_os(DETACHED).is_some()
}

fn is_root() -> bool {
    getuid().is_root() || geteuid().is_root()
}

impl Process {
    /// Checks that root has named a user, and that the user exists.
    pub fn check_user(&self) -> Result<(), Refusal> {
        self.wanted_user().map(|_| ())
    }

    fn wanted_user(&self) -> Result<Option<(Uid, Gid)>, Refusal> {
        if !is_root() {
            return Ok(None);
        }
        let name = self.user.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
            (code::USAGE, "the process runs as root; pass -u USER, or -u root to stay root".to_owned())
        })?;
        let ids = ids_of(name);
        ids.map(Some).ok_or_else(|| {
            (code::NO_USER, format!("-u: the user {name} does not exist; `getent passwd` lists the users"))
        })
    }

    /// Starts this program again in the background, and waits until it serves clients.
    ///
    /// # Errors
    /// The exit code of the background process, which has reported the reason itself.
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
        let line = status.code().is_none().then(|| format!("-d: the background process ended ({status})"));
        Err((status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(code::FAILED), line))
    }

    /// Detaches this process if it is the background process, and raises its limits.
    pub fn begin(&self) -> Result<(), Refusal> {
        if self.daemon {
            let detached = setsid().map(|_| ());
            // The kernel writes a core file to the working directory, so a process with core files enabled stays in its
            // directory.
            let moved = if self.core_files { Ok(()) } else { rustix::process::chdir("/") };
            detached.and(moved).map_err(|error| (code::FAILED, format!("-d: cannot detach this process: {error}")))?;
        }
        if self.core_files {
            raise_core_limit()?;
        }
        Ok(())
    }

    /// Switches to the requested user.
    pub fn become_user(&self) -> Result<(), Refusal> {
        let Some((user, group)) = self.wanted_user()? else { return Ok(()) };
        let name = self.user.as_deref().unwrap_or_default();
        match set_thread_groups(&[]) {
            // A process that lacks the right to change its groups (EPERM) has no root groups to drop.
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err((code::SYSTEM, format!("-u: cannot drop the groups of root: {error}"))),
        }
        set_thread_gid(group)
            .and_then(|()| set_thread_uid(user))
            .map_err(|error| (code::SYSTEM, format!("-u: cannot switch to the user {name} ({error})")))
    }

    /// Returns the files that [`Process::up`] writes.
    pub fn written(&self) -> Vec<PathBuf> {
        self.pid_file.iter().cloned().chain(std::env::var_os(PORT_FILE).map(PathBuf::from)).collect()
    }

    /// Writes the pid file and the port file, and reports to the waiting process that clients can connect to `addrs`.
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
            tracing::warn!(%error, "cannot detach from the terminal");
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
        // Ignores an error, because the waiting process may have ended already.
        let _ = rustix::io::write(&waits, b"\n");
        Ok(())
    }

    /// Removes the pid file after the server has ended.
    pub fn end(&self) {
        if let Some(path) = self.pid_file.as_ref().filter(|_| self.daemon)
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!("cannot remove the pid file {}: {error}", path.display());
        }
    }
}

/// Returns the user and group ids of `name`: from /etc/passwd, or from the system's other sources.
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
        Some(0) => Err((code::SYSTEM, "-r: the limit does not allow core files; raise `ulimit -c`".to_owned())),
        _ => Ok(()),
    }
}

/// Writes `text` to the file at `path`. The text is written under another name first, so that a reader never sees a
/// partial file.
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
        tracing::warn!("the pid file {} contains the process id {before}, which is running", path.display());
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
    fn user_is_found_by_its_full_name() {
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
