//! A tree of files in a temporary directory, which represents a host.

#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use gannet_doctor::{CheckTarget, Host, OptInActions};

/// A temporary directory. Dropping this value removes the directory.
pub struct Tree(pub PathBuf);

impl Tree {
    pub fn new(name: &str) -> Self {
        static TREES: AtomicUsize = AtomicUsize::new(0);
        let number = TREES.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("gannet-doctor-{}-{number}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, file: &str, text: &str) {
        let place = self.0.join(file.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file.trim_start_matches('/'))).unwrap()
    }

    pub fn target(&self, pid: Option<u32>) -> CheckTarget {
        CheckTarget { root: self.0.clone(), pid, window: Duration::ZERO, asked: OptInActions::default() }
    }

    pub fn host(&self, pid: Option<u32>) -> Host {
        Host::watch(self.target(pid))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
