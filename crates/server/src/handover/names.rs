//! The names under which a running server is found by who wants to take it over: one for each address that it listens
//! on, so that who is to listen there too finds it without being told of a process or a file.
//!
//! They are handed over with all else. Who asks between the old process and the new one is in the queue of the name,
//! and is heard by the new one; a name is never free meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use io::listen::ListenAddr;
use io::pass::{NAME_BYTES_MAX, PassListener};
use sha2::{Digest, Sha256};

/// Names that are listened under, each with its address.
#[derive(Debug, Default)]
pub struct Names(Vec<(ListenAddr, PassListener)>);

impl Names {
    /// Those of `addrs`. One that is in `had` already stays as it is; one that is not to be had is told in the log, and
    /// left out: the server can be taken over by its others.
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
                Err(error) => tracing::warn!("nobody can take over by {addr}: {error}"),
            }
        }
        Self(names)
    }

    /// Returns what was received of another process.
    pub(super) fn adopt(told: impl IntoIterator<Item = (OwnedFd, ListenAddr)>) -> Self {
        Self(told.into_iter().map(|(fd, addr)| (addr, PassListener::adopt(fd))).collect())
    }

    /// Takes in others.
    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn listeners(&self) -> Vec<&PassListener> {
        self.0.iter().map(|(_, listener)| listener).collect()
    }

    /// With their descriptors, to be told.
    pub(super) fn told(&self) -> impl Iterator<Item = (&ListenAddr, BorrowedFd<'_>)> {
        self.0.iter().map(|(addr, listener)| (addr, listener.as_fd()))
    }
}

/// The name that is listened under for who wants to take over who listens at `addr`.
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
