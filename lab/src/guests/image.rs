//! The boot files of a guest: a kernel from Debian's package, and an initramfs with busybox, libraries and modules.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{command, path_text};

/// Kernel modules in the order in which the guest loads them. A module without a file is built into the kernel.
const MODULES: [&str; 19] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
    "crc16",
    "crc32c_generic",
    "libcrc32c",
    "mbcache",
    "jbd2",
    "ext4",
    "libnvdimm",
    "nfit",
    "nd_btt",
    "nd_pmem",
];

/// Files of a kernel package: the image, and the directory of modules.
pub struct Kernel {
    /// Path of the kernel image, `vmlinuz-...`.
    pub image: PathBuf,
    modules: PathBuf,
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// Downloads and unpacks the kernel that a Debian package depends on, without installing it.
///
/// # Errors
/// The error message of apt.
pub fn kernel(folder: &Path, package: &str) -> Result<Kernel, String> {
    let depends = command(folder, "apt-cache", &["depends", package])?;
    let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let name = format!("linux-image-{}", name.ok_or_else(|| format!("{package} does not depend on a kernel package"))?);
    let place = folder.join(&name);
    if !place.join("boot").is_dir() {
        command(folder, "apt-get", &["download", "-q", &name])?;
        let package = find(folder, &|file| file.starts_with(&format!("{name}_")) && file.ends_with(".deb"))
            .ok_or_else(|| format!("cannot download {name}"))?;
        command(folder, "dpkg-deb", &["-x", &package.to_string_lossy(), &place.to_string_lossy()])?;
    }
    let image = find(&place.join("boot"), &|file| file.starts_with("vmlinuz-"));
    Ok(Kernel { image: image.ok_or_else(|| format!("{name} contains no kernel"))?, modules: place.join("lib/modules") })
}

/// Returns the first matching file of a directory.
fn find(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_wanted))
}

/// Returns a matching file at any depth below a directory.
fn deep(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    find(folder, is_wanted).filter(|path| path.is_file()).or_else(|| {
        let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).find_map(|path| deep(&path, is_wanted))
    })
}

/// Packs the files with which the guest starts: busybox, the script `init` as its first process, the programs of this
/// system that `tools` names, and the libraries of all of these and of `programs`. The `programs` themselves are on a
/// disk of the guest.
///
/// # Errors
/// The missing file or program.
pub fn initramfs(
    folder: &Path,
    name: &str,
    kernel: &Kernel,
    init: &str,
    tools: &[&str],
    programs: &[&Path],
) -> Result<PathBuf, String> {
    let root = folder.join(format!("root-{name}"));
    let _ = fs::remove_dir_all(&root);
    for name in ["bin", "proc", "sys", "dev", "tmp", "mnt", "modules"] {
        fs::create_dir_all(root.join(name)).map_err(failed(&root))?;
    }
    let busybox = command(folder, "sh", &["-c", "command -v busybox"])?;
    fs::copy(busybox.trim(), root.join("bin/busybox")).map_err(failed(&root))?;
    symlink("busybox", root.join("bin/sh")).map_err(failed(&root))?;
    for tool in tools {
        let path = command(folder, "sh", &["-c", &format!("command -v {tool}")])?;
        fs::copy(path.trim(), root.join("bin").join(tool)).map_err(failed(&root))?;
        libraries(folder, Path::new(path.trim()), &root)?;
    }
    for program in programs {
        libraries(folder, program, &root)?;
    }
    let mut order = String::new();
    for module in MODULES {
        let Some(file) =
            deep(&kernel.modules, &|file| file.strip_prefix(module).is_some_and(|rest| rest.starts_with(".ko")))
        else {
            continue;
        };
        let packed = file.extension().is_some_and(|end| end == "xz");
        let to = root.join("modules").join(format!("{module}.ko"));
        let script = format!("{} '{}' > '{}'", if packed { "xz -dc" } else { "cat" }, file.display(), to.display());
        command(folder, "sh", &["-c", &script])?;
        order += &format!("{module}.ko\n");
    }
    let first = root.join("init");
    // Lists the modules twice. The dependency between virtio and its rings differs between kernels, so the second pass
    // loads what the first could not.
    fs::write(root.join("modules/order"), order.repeat(2)).map_err(failed(&root))?;
    fs::write(&first, init).map_err(failed(&first))?;
    fs::set_permissions(&first, fs::Permissions::from_mode(0o755)).map_err(failed(&first))?;
    let packed = folder.join(format!("initramfs-{name}"));
    let script = format!("find . | cpio -o -H newc --quiet | gzip -1 > '{}'", packed.display());
    command(&root, "sh", &["-c", &script])?;
    Ok(packed)
}

/// Copies a program without its symbols to the directory of a guest's disk.
///
/// # Errors
/// The error message of `strip`.
pub fn stripped(folder: &Path, program: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(failed(parent))?;
    command(folder, "strip", &["-o", &path_text(to), &path_text(program)]).map(drop)
}

/// Copies a program's shared libraries to the paths where the program expects them.
fn libraries(folder: &Path, program: &Path, root: &Path) -> Result<(), String> {
    let libraries = command(folder, "ldd", &[&program.to_string_lossy()])?;
    for path in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap_or(root)).map_err(failed(&to))?;
        fs::copy(path, &to).map_err(failed(&to))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_module_is_found_at_any_depth_by_its_exact_name() {
        let root = std::env::temp_dir().join(format!("gannet-modules-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("6.1/kernel/fs/ext4")).unwrap();
        fs::write(root.join("6.1/kernel/fs/ext4/ext4_old.ko"), "").unwrap();
        fs::write(root.join("6.1/kernel/fs/ext4/ext4.ko"), "").unwrap();
        let found = deep(&root, &|file| file.strip_prefix("ext4").is_some_and(|rest| rest.starts_with(".ko")));
        assert_eq!(found, Some(root.join("6.1/kernel/fs/ext4/ext4.ko")));
        let _ = fs::remove_dir_all(root);
    }
}
