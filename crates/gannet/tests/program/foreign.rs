//! Tests that `--file` and `--flash` refuse files and devices of other programs with a message, and leave them
//! unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Serving, ask, connect, run};

const IMAGE_BYTES: u64 = 64 << 20;

/// A temporary directory. Dropping this value removes the directory.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// Returns a file in which a system program created a file system or swap space; `None` if the program is missing.
    fn image(&self, words: &[&str]) -> Option<PathBuf> {
        let path = self.file(words[0], &[]);
        std::fs::File::options().write(true).open(&path).expect("there").set_len(IMAGE_BYTES).expect("longer");
        let made = Command::new(words[0]).args(&words[1..]).arg(&path).output();
        made.is_ok_and(|made| made.status.success()).then_some(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FIXED: [&str; 7] = ["serve", "--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB"];

/// Returns the error text of `gannet serve`, which must not start.
fn refusal(more: &[&str]) -> String {
    let (code, _, err) = run(&[&FIXED, more].concat());
    assert_eq!(code, 1, "{more:?}: {err}");
    err
}

fn starts(more: &[&str]) -> Serving {
    let mut serving = Serving::start(&[&FIXED[1..], more].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    ask(&mut connect(addr), b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    serving
}

/// Returns the arguments of `--flash` for a path.
fn flash(path: &Path) -> String {
    format!("{}:50MiB", path.display())
}

#[test]
fn foreign_file_contents_are_not_overwritten_by_flash_or_memory() {
    let folder = Folder::new("foreign");
    let mut files = vec![
        (folder.file("text", b"somebody's notes\n"), "data of another program"),
        (folder.file("database", &[&[0; 9 << 20][..], b"rows"].concat()), "data of another program"),
    ];
    for (words, what) in [
        (&["mkfs.ext4", "-q", "-F"][..], "an ext2, ext3 or ext4 file system"),
        (&["mkswap"][..], "swap space"),
        (&["mkfs.xfs", "-q", "-f"][..], "an XFS file system"),
    ] {
        match folder.image(words) {
            Some(path) => files.push((path, what)),
            None => eprintln!("{} is not here: its image is not tried", words[0]),
        }
    }
    for (path, what) in &files {
        let before = std::fs::read(path).expect("there");
        let (named, path_text) = (flash(path), path.to_str().expect("text"));
        let err = refusal(&["--flash", &named]);
        assert!(err.contains(&format!("cannot use {path_text} for --flash: it holds {what}; ")), "{err}");
        assert!(err.contains("--flash-reset"), "{err}");
        let err = refusal(&["--file", path_text]);
        assert!(err.contains("not a gannet memory file") && err.contains("--file-reset"), "{err}");
        for command in ["stats", "check", "dump"] {
            let (code, _, err) = run(&["file", command, path_text]);
            assert!(code != 0 && err.contains("not a gannet memory file"), "{command}: {err}");
            assert!(!err.contains("reset"), "a command that only reads names no destructive flag: {err}");
        }
        assert!(std::fs::read(path).expect("there") == before, "{path_text} is as it was");
    }
    let named = flash(&files[0].0);
    drop(starts(&["--flash", &named, "--flash-reset"]));
    drop(starts(&["--flash", &named]));
    // A file whose space was reserved but never written belongs to no program.
    let reserved = folder.file("reserved", &[]);
    std::fs::File::options().write(true).open(&reserved).expect("there").set_len(IMAGE_BYTES).expect("longer");
    drop(starts(&["--flash", &flash(&reserved)]));
}

#[test]
fn special_or_missing_paths_are_rejected_for_flash_and_memory() {
    let folder = Folder::new("kinds");
    let fifo = folder.0.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let target = folder.file("target", b"what a link leads to");
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    for path in [&folder.0, &fifo, Path::new("/dev/null")] {
        let err = refusal(&["--flash", &flash(path)]);
        assert!(err.contains("it is neither a file nor a block device; name a file"), "{err}");
        let err = refusal(&["--file", path.to_str().expect("text")]);
        assert!(err.contains("not a regular file; name a file"), "{err}");
    }
    assert!(refusal(&["--flash", &flash(&link)]).contains("it holds data of another program"));
    assert!(refusal(&["--file", link.to_str().expect("text")]).contains("not a gannet memory file"));
    assert_eq!(std::fs::read(&target).expect("there"), b"what a link leads to");
    let missing = Path::new("/dev/gannet-test-no-such-disk");
    assert!(refusal(&["--flash", &flash(missing)]).contains("there is no such device"));
    assert!(!missing.exists());
    let (code, _, err) = run(&[&FIXED[..], &["--flash-reset"]].concat());
    assert!(code == 2 && err.contains("--flash-reset: there is no flash device"), "{code} {err}");
}

/// A loop device, and the directory where it is mounted. Dropping this value releases both.
struct Loop {
    device: String,
    mount: Option<PathBuf>,
}

fn done(words: &[&str]) -> Option<String> {
    let ran = Command::new(words[0]).args(&words[1..]).output().ok()?;
    ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}

impl Loop {
    fn mounted(image: &Path, at: PathBuf) -> Option<Self> {
        let device = done(&["losetup", "--find", "--show", image.to_str()?])?;
        let mut made = Self { device, mount: None };
        std::fs::create_dir_all(&at).ok()?;
        done(&["mount", &made.device, at.to_str()?])?;
        made.mount = Some(at);
        Some(made)
    }

    fn unmount(&mut self) {
        if let Some(at) = self.mount.take() {
            let _ = done(&["umount", at.to_str().expect("text")]);
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        let _ = done(&["losetup", "--detach", &self.device]);
    }
}

#[test]
fn device_with_a_file_system_is_rejected_and_preserved() {
    let folder = Folder::new("devices");
    let image = folder.image(&["mkfs.ext4", "-q", "-F"]);
    let Some(mut disk) = image.as_deref().and_then(|image| Loop::mounted(image, folder.0.join("mounted"))) else {
        eprintln!("skipped: no loop device can be mounted here (losetup, mount and root are needed)");
        return;
    };
    let at = disk.mount.clone().expect("it is mounted");
    std::fs::write(at.join("kept"), vec![7; 1 << 20]).expect("written");
    let named = format!("{}:50MiB", disk.device);
    // `--flash-reset` discards the contents of a device, but not of a device that is in use.
    for more in [&["--flash", &named][..], &["--flash", &named, "--flash-reset"]] {
        let err = refusal(more);
        assert!(err.contains("is mounted, used as swap, or a member of a RAID"), "{err}");
    }
    disk.unmount();
    let err = refusal(&["--flash", &named]);
    assert!(err.contains("it holds an ext2, ext3 or ext4 file system; "), "{err}");
    assert!(done(&["mount", &disk.device, at.to_str().expect("text")]).is_some(), "it is a file system still");
    disk.mount = Some(at.clone());
    assert!(std::fs::read(at.join("kept")).expect("there") == vec![7; 1 << 20]);
    disk.unmount();
    let mut serving = starts(&["--flash", &named, "--flash-reset"]);
    assert!(refusal(&["--flash", &named]).contains("another process uses it; stop it"));
    serving.signal("KILL");
    serving.ended();
    drop(starts(&["--flash", &named]));
}
