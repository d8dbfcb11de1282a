//! Installs other projects' programs on a fresh Debian 12.

use std::process::Command;

/// A program, and the Debian packages that contain it.
pub struct Need {
    /// The program's name.
    pub program: &'static str,
    /// Arguments with which the program exits successfully without any effect, which shows that it is installed.
    pub arguments: &'static [&'static str],
    /// Packages that are installed if the program is missing.
    pub packages: &'static [&'static str],
}

/// Installs missing programs with apt-get. Without root rights, reports the command that installs them.
///
/// # Errors
/// A sentence with the command that the user must run, or with the command that failed.
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
        // memccapable fails with every argument if no server runs, so the check is only that it starts.
        run.is_ok_and(|output| output.status.success() || need.program == "memccapable")
    };
    needs.iter().filter(|need| !is_there(need)).flat_map(|need| need.packages.iter().copied()).collect()
}
