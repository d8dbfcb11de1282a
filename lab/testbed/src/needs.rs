//! Foreign programs, and their installation on a fresh Debian 12.

use std::process::Command;

/// A program, and the Debian package that contains it.
pub struct Need {
    /// The program's name.
    pub program: &'static str,
    /// Arguments with which the program succeeds without any effect.
    pub arguments: &'static [&'static str],
    /// Packages that are installed if the program is missing.
    pub packages: &'static [&'static str],
}

/// Installs missing programs with apt-get as root; otherwise reports what to install.
///
/// # Errors
/// The command that a person must run, or that failed.
pub fn install(needs: &[Need]) -> Result<(), String> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(format!("required programs are missing; run:  sudo apt-get install -y {list}"));
    }
    println!("installing: {list}");
    let apt = |arguments: &[&str]| -> Result<(), String> {
        let status = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("apt-get {}: {status}", arguments.join(" "))),
            Err(error) => Err(format!("apt-get: {error}; install manually: {list}")),
        }
    };
    apt(&["update", "-q"])?;
    let mut install = vec!["install", "-y", "-q", "--no-install-recommends"];
    install.extend(&packages);
    apt(&install)?;
    match missing(needs) {
        still if still.is_empty() => Ok(()),
        still => Err(format!("installed, but still not found: {}", still.join(" "))),
    }
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    let is_there = |need: &Need| {
        let run = Command::new(need.program).args(need.arguments).output();
        // memccapable has no option that succeeds without a server, so it is enough that it starts.
        run.is_ok_and(|output| output.status.success() || need.program == "memccapable")
    };
    needs.iter().filter(|need| !is_there(need)).flat_map(|need| need.packages.iter().copied()).collect()
}
