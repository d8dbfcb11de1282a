//! The text of each start error, with its remedy for an operator.

use std::io::ErrorKind;
use std::path::Path;

use base::units::ByteSize;
use command::clients::endpoint::Protocol;
use io::listen::ListenAddr;

use crate::start::StartError;

/// Formats `error` as one line: the error, the address or file that it concerns, and the remedy.
pub fn start_error(error: &StartError) -> String {
    match error {
        StartError::Bind { protocol, addr, error } => {
            listen(&addr.to_string(), unix_path(addr), option_of(*protocol), error)
        }
        StartError::Store(error) => format!("cannot create the store: {}", store(error)),
        StartError::File { path, error } => file(path, error),
        StartError::NamespaceMoved { kept, .. } => {
            format!("{error} in the memory file; write number = {kept} for it, or drop it from the configuration")
        }
        StartError::Rights { path, error } => {
            format!("cannot load the users of listen.acl_file, {}: {error}", path.display())
        }
        StartError::Audit { path, error } => {
            format!(
                "cannot open the audit log {}: {error}; check the folder's permissions, or change log.audit",
                path.display()
            )
        }
        StartError::Namespace { name, error } => {
            format!(
                "cannot create the namespace {name}: {error}; change the namespace's memory in the configuration file"
            )
        }
        StartError::TokenKey { .. } | StartError::Graphs { .. } => error.to_string(),
        StartError::Auth { path, error } => {
            format!("cannot load the users of {}: {error}; write user:password lines", path.display())
        }
        StartError::Flash { path, error } => flash(path, error),
        StartError::Resource(error) => {
            format!("cannot create a thread or open a file descriptor: {error}; raise `ulimit -n` and `ulimit -u`")
        }
        StartError::Tls(_) => error.to_string(),
        StartError::Config(fault) => format!("{fault}; `gannet config --check FILE` lists every fault"),
    }
}

/// Formats the error of an admin port at `addr` as one line.
pub fn admin_error(addr: std::net::SocketAddr, error: &std::io::Error) -> String {
    listen(&addr.to_string(), None, "--admin", error)
}

/// Returns the option that names the addresses of a protocol.
fn option_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Memcache => "--memcached",
        Protocol::Resp => "--resp",
        Protocol::Grpc => "--grpc",
    }
}

fn unix_path(addr: &ListenAddr) -> Option<&Path> {
    match addr {
        ListenAddr::Tcp(_) => None,
        ListenAddr::Unix { path, .. } => Some(path),
    }
}

fn listen(addr: &str, path: Option<&Path>, flag: &str, error: &std::io::Error) -> String {
    let (what, remedy) = match (error.kind(), path) {
        (ErrorKind::AddrInUse, Some(path)) if !is_socket(path) => {
            ("a file that is not a socket is there".to_owned(), format!("remove it, or name another path with {flag}"))
        }
        (ErrorKind::AddrInUse, _) => (
            "another process listens there".to_owned(),
            format!("stop it (`ss -lptx` and `ss -lptn` name it), or choose another address with {flag}"),
        ),
        (ErrorKind::PermissionDenied, None) => (
            "this user may not open that port".to_owned(),
            format!("choose a port above 1023 with {flag}, or grant CAP_NET_BIND_SERVICE"),
        ),
        (ErrorKind::PermissionDenied, Some(path)) => {
            (format!("this user may not write to {}", folder(path)), format!("name another path with {flag}"))
        }
        (ErrorKind::NotFound, Some(path)) => {
            (format!("there is no folder {}", folder(path)), format!("create it, or name another path with {flag}"))
        }
        (ErrorKind::AddrNotAvailable, _) => (
            "no interface of this machine has that address".to_owned(),
            format!("choose one that `ip addr` shows, or 0.0.0.0 for all, with {flag}"),
        ),
        _ => (error.to_string(), format!("choose another address with {flag}")),
    };
    format!("cannot listen on {addr}: {what}; {remedy}")
}

fn file(path: &Path, error: &arena::OpenError) -> String {
    let remedy = match error {
        arena::OpenError::Locked => "stop it (`fuser -v` names it), or name another file with --file".to_owned(),
        arena::OpenError::NotAFile => "name a file with --file".to_owned(),
        arena::OpenError::OtherOwner { user, .. } => {
            let path = path.display();
            format!("start the server as its owner, run `chown {user} {path}`, or name another file with --file")
        }
        arena::OpenError::WritableByOthers(_) => format!("run `chmod go-w {}`", path.display()),
        arena::OpenError::Io(error) if error.kind() == ErrorKind::NotFound => {
            format!("make the folder {}, or name another file with --file", folder(path))
        }
        arena::OpenError::Io(error) if error.kind() == ErrorKind::PermissionDenied => {
            "let this user read and write it, or name another file with --file".to_owned()
        }
        arena::OpenError::Io(_) => "name another file with --file".to_owned(),
    };
    format!("the memory file {} cannot be used: {error}; {remedy}", path.display())
}

fn flash(path: &Path, error: &flash::OpenError) -> String {
    use flash::OpenError;
    let other = "or name another one with --flash";
    let remedy = match error {
        OpenError::Open(error) if error.kind() == ErrorKind::PermissionDenied => {
            format!("let this user read and write it, {other}")
        }
        OpenError::Open(error) if error.kind() == ErrorKind::NotFound => {
            format!("make the folder {}, {other}", folder(path))
        }
        OpenError::Open(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            format!("mount it writable, {other}")
        }
        OpenError::Open(_) | OpenError::Kind => "name a file or a block device with --flash".to_owned(),
        OpenError::Smaller { bytes } => format!("give --flash {}:{bytes} at most", path.display()),
        OpenError::Room(_) => format!("free space, give it a smaller size, {other}"),
        OpenError::Taken => format!("stop it (`fuser -v` names it), {other}"),
        OpenError::InUse => format!("release it (`lsblk`, `swapon` and /proc/mdstat show its user), {other}"),
        OpenError::Foreign(_) => "name another one with --flash; --flash-reset destroys what it holds".to_owned(),
        OpenError::NoDevice => "name one that `lsblk` lists, or a file outside /dev".to_owned(),
        OpenError::Other => "give the same --flash as the server".to_owned(),
    };
    format!("cannot use {} for --flash: {error}; {remedy}", path.display())
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn folder(path: &Path) -> String {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).display().to_string()
}

fn store(error: &segment::StartError) -> String {
    match error {
        segment::StartError::MemoryTooSmall { memory_bytes, least_bytes } => format!(
            "{} are too small for its segments; give --memory at least {}, or choose a smaller --segment",
            ByteSize(*memory_bytes),
            ByteSize::mib(least_bytes.div_ceil(1 << 20)),
        ),
        segment::StartError::MemoryTooLarge { most_bytes } => {
            format!("the memory is larger than its index can address; give --memory at most {}", ByteSize(*most_bytes))
        }
        segment::StartError::ItemTooLarge { most_bytes } => {
            format!(
                "the largest item is more than this memory allows; give --item-max at most {}",
                ByteSize(*most_bytes)
            )
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(kind: ErrorKind, path: &str) -> String {
        let addr = ListenAddr::Unix { path: path.into(), mode: 0o700 };
        start_error(&StartError::Bind { protocol: Protocol::Memcache, addr, error: kind.into() })
    }

    #[test]
    fn every_bind_fault_names_the_place_and_the_remedy() {
        let addr = ListenAddr::Tcp(([127, 0, 0, 1], 80).into());
        for (kind, what) in [
            (ErrorKind::AddrInUse, "another process listens there; stop it"),
            (ErrorKind::PermissionDenied, "above 1023"),
            (ErrorKind::AddrNotAvailable, "ip addr"),
            (ErrorKind::OutOfMemory, "choose another address"),
        ] {
            for (protocol, option) in
                [(Protocol::Memcache, "--memcached"), (Protocol::Resp, "--resp"), (Protocol::Grpc, "--grpc")]
            {
                let text = start_error(&StartError::Bind { protocol, addr: addr.clone(), error: kind.into() });
                let is_whole = text.contains("127.0.0.1:80: ") && text.contains(what);
                assert!(is_whole && text.contains(option), "{text}");
            }
        }
        assert!(unix(ErrorKind::NotFound, "/no/such/x.sock").contains("no folder /no/such"));
        assert!(unix(ErrorKind::PermissionDenied, "x.sock").contains("may not write to ."));
        assert!(unix(ErrorKind::AddrInUse, "/etc/hostname").contains("not a socket"));
    }

    #[test]
    fn memory_file_errors_have_a_remedy() {
        let text = |error| start_error(&StartError::File { path: "/m/store".into(), error });
        assert!(
            text(arena::OpenError::Locked).contains("/m/store cannot be used: another process has the file open; stop")
        );
        let missing = std::io::Error::from(ErrorKind::NotFound);
        assert!(text(arena::OpenError::Io(missing)).contains("make the folder /m"));
        let line = text(arena::OpenError::OtherOwner { owner: 7, user: 8 });
        assert!(line.contains("belongs to the user with the id 7") && line.contains("`chown 8 /m/store`"), "{line}");
        let line = text(arena::OpenError::WritableByOthers(0o666));
        assert!(line.contains("its mode is 0666") && line.ends_with("run `chmod go-w /m/store`"), "{line}");
    }

    #[test]
    fn a_device_that_cannot_be_used_is_named_with_the_cause_and_a_remedy() {
        let text = |error| start_error(&StartError::Flash { path: "/dev/sdz".into(), error });
        let line = text(flash::OpenError::Foreign("an XFS file system"));
        assert!(line.starts_with("cannot use /dev/sdz for --flash: it holds an XFS file system; "), "{line}");
        assert!(line.contains("--flash-reset destroys"), "{line}");
        assert!(text(flash::OpenError::InUse).contains("is mounted, used as swap, or a member of a RAID"));
        assert!(!text(flash::OpenError::InUse).contains("--flash-reset"), "a reset does not help");
        assert!(text(flash::OpenError::Smaller { bytes: 4096 }).contains("--flash /dev/sdz:4096 at most"));
        assert!(text(flash::OpenError::Open(ErrorKind::PermissionDenied.into())).contains("let this user"));
    }

    #[test]
    fn store_errors_name_a_valid_size() {
        let error = segment::StartError::MemoryTooSmall { memory_bytes: 1 << 20, least_bytes: (9 << 20) + 1 };
        let text = start_error(&StartError::Store(error));
        assert!(text.contains("1MiB are too small") && text.contains("at least 10MiB"), "{text}");
    }
}
