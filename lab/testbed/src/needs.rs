//! Foreign programs, and how a fresh Debian 12 gets them.

use std::process::Command;

/// A program, and the Debian package that brings it.
pub struct Need {
    /// Its name.
    pub program: &'static str,
    /// Arguments with which it does nothing and succeeds.
    pub arguments: &'static [&'static str],
    /// Packages that are installed if the program is missing.
    pub packages: &'static [&'static str],
}

/// Installs what is missing, as root with apt-get; otherwise says what to install.
///
/// # Errors
/// The command that a person has to run, or that failed.
pub fn install(needs: &[Need]) -> Result<(), String> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(format!("programs that this needs are missing; run:  sudo apt-get install -y {list}"));
    }
    println!("installing: {list}");
    let apt = |arguments: &[&str]| -> Result<(), String> {
        let status = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("apt-get {}: {status}", arguments.join(" "))),
            Err(error) => Err(format!("apt-get: {error}; install by hand: {list}")),
        }
    };
    apt(&["update", "-q"])?;
    let mut install = vec!["install", "-y", "-q", "--no-install-recommends"];
    install.extend(&packages);
    apt(&install)?;
    match missing(needs) {
        still if still.is_empty() => Ok(()),
        still => Err(format!("installed, but not found all the same: {}", still.join(" "))),
    }
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    let is_there = |need: &Need| {
        let run = Command::new(need.program).args(need.arguments).output();
        // memccapable knows no option that succeeds without a server: that it starts is enough.
        run.is_ok_and(|output| output.status.success() || need.program == "memccapable")
    };
    needs.iter().filter(|need| !is_there(need)).flat_map(|need| need.packages.iter().copied()).collect()
}
