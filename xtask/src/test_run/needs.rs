//! The foreign programs that the tests use, and their installation on a fresh Debian 12.

use testbed::needs::{Need, install};

const NEEDS: [Need; 16] = [
    Need { program: "cc", arguments: &["--version"], packages: &["gcc", "libc6-dev"] },
    Need { program: "memcached", arguments: &["-V"], packages: &["memcached"] },
    Need { program: "redis-server", arguments: &["--version"], packages: &["redis-server"] },
    Need { program: "redis-benchmark", arguments: &["--version"], packages: &["redis-tools"] },
    Need { program: "prometheus-redis-exporter", arguments: &["--version"], packages: &["prometheus-redis-exporter"] },
    Need { program: "perl", arguments: &["--version"], packages: &["perl"] },
    Need { program: "ip", arguments: &["-V"], packages: &["iproute2"] },
    Need { program: "systemctl", arguments: &["--version"], packages: &["systemd"] },
    Need { program: "memccapable", arguments: &["-h"], packages: &["libmemcached-tools"] },
    Need { program: "lstopo-no-graphics", arguments: &["--version"], packages: &["hwloc-nox"] },
    Need { program: "valgrind", arguments: &["--version"], packages: &["valgrind"] },
    Need { program: "python3", arguments: &["-c", "import venv, ensurepip"], packages: &["python3", "python3-venv"] },
    Need { program: "go", arguments: &["version"], packages: &["golang-go"] },
    Need { program: "node", arguments: &["--version"], packages: &["nodejs"] },
    Need { program: "npm", arguments: &["--version"], packages: &["npm"] },
    Need { program: "mvn", arguments: &["--version"], packages: &["default-jdk-headless", "maven"] },
];

/// Installs the missing programs.
///
/// # Errors
/// As for [`install`].
pub fn install_missing() -> Result<(), String> {
    install(&NEEDS)
}
