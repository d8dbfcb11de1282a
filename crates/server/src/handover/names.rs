//! The names of abstract sockets by which a new process finds the running server: one for each listening address. A
//! process that will listen on the same address finds the sockets without a process number or a file.
//!
//! The names are handed over with everything else. A process that connects during a takeover waits in the name's queue,
//! and the new server accepts it. A name is never unbound meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use io::listen::ListenAddr;
use io::pass::{NAME_BYTES_MAX, PassListener};
use sha2::{Digest, Sha256};

/// The abstract sockets, each with the listening address from which its name is derived.
#[derive(Debug, Default)]
pub struct Names(Vec<(ListenAddr, PassListener)>);

impl Names {
    /// Binds the abstract sockets whose names are derived from `addrs`. A socket in `had` whose address is in `addrs`
    /// is reused. A name that cannot be bound is logged and left out: the server can still be taken over through its
    /// other addresses.
    pub(super) fn listen(addrs: &[ListenAddr], had: Self) -> Self {
        let mut had = had.0;
        let mut names = Vec::new();
        for addr in addrs {
            if let Some(at) = had.iter().position(|(name, _)| name == addr) {
                names.push(had.swap_remove(at));
                continue;
            }
            match PassListener::bind(&name_of(addr)) {
                Ok(listener) => names.push((addr.clone(), listener)),
                Err(error) => tracing::warn!("no process can take over at {addr}: {error}"),
            }
        }
        Self(names)
    }

    /// Wraps the sockets that were received from another process.
    pub(super) fn adopt(listed: impl IntoIterator<Item = (OwnedFd, ListenAddr)>) -> Self {
        Self(listed.into_iter().map(|(fd, addr)| (addr, PassListener::adopt(fd))).collect())
    }

    /// Adds the sockets of `more`.
    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn listeners(&self) -> Vec<&PassListener> {
        self.0.iter().map(|(_, listener)| listener).collect()
    }

    /// Returns each listening address with the descriptor of its abstract socket, for a message to the other process.
    pub(super) fn listed(&self) -> impl Iterator<Item = (&ListenAddr, BorrowedFd<'_>)> {
        self.0.iter().map(|(addr, listener)| (addr, listener.as_fd()))
    }
}

/// Returns the abstract name of the socket by which a new process finds the server that listens at `addr`.
pub(super) fn name_of(addr: &ListenAddr) -> Vec<u8> {
    let place = match addr {
        ListenAddr::Tcp(addr) => format!("tcp/{addr}"),
        ListenAddr::Unix { path, .. } => {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
            format!("unix/{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    };
    let name = format!("gannet-upgrade/{place}").into_bytes();
    assert!(name.len() <= NAME_BYTES_MAX, "a name of {} bytes", name.len());
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn each_address_has_a_name_of_its_own() {
        let tcp = ListenAddr::Tcp(([127, 0, 0, 1], 11211).into());
        let long = "/x".repeat(90);
        let unix = ListenAddr::Unix { path: PathBuf::from(&long), mode: 0o700 };
        assert_eq!(name_of(&tcp), b"gannet-upgrade/tcp/127.0.0.1:11211");
        let other = ListenAddr::Unix { path: PathBuf::from(long + "y"), mode: 0o700 };
        assert_ne!(name_of(&unix), name_of(&other));
    }
}
