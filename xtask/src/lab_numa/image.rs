//! What a guest starts from: a kernel out of Debian's package, and an initramfs with busybox, gannet and libraries.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::command;
use super::guest::path_text;

/// Modules in the order in which they are loaded; a kernel that has one built in has no file of it.
const MODULES: [&str; 12] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
    "crc16",
    "crc32c_generic",
    "libcrc32c",
    "mbcache",
    "jbd2",
    "ext4",
];

/// Files of a package of a kernel: the image, and the folder of modules.
pub struct Kernel {
    /// `vmlinuz-...`.
    pub image: PathBuf,
    modules: PathBuf,
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// The kernel that a package of Debian's depends on, unpacked and not installed.
///
/// # Errors
/// What apt says.
pub fn kernel(folder: &Path, package: &str) -> Result<Kernel, String> {
    let told = command(folder, "apt-cache", &["depends", package])?;
    let name = told.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let name = format!("linux-image-{}", name.ok_or_else(|| format!("{package} depends on no kernel"))?);
    let place = folder.join(&name);
    if !place.join("boot").is_dir() {
        command(folder, "apt-get", &["download", "-q", &name])?;
        let package = find(folder, &|file| file.starts_with(&format!("{name}_")) && file.ends_with(".deb"))
            .ok_or_else(|| format!("{name} was not downloaded"))?;
        command(folder, "dpkg-deb", &["-x", &package.to_string_lossy(), &place.to_string_lossy()])?;
    }
    let image = find(&place.join("boot"), &|file| file.starts_with("vmlinuz-"));
    Ok(Kernel { image: image.ok_or_else(|| format!("{name} has no kernel"))?, modules: place.join("lib/modules") })
}

/// The first file of a folder that is wanted.
fn find(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_wanted))
}

/// A file below a folder, however deep.
fn deep(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    find(folder, is_wanted).filter(|path| path.is_file()).or_else(|| {
        let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).find_map(|path| deep(&path, is_wanted))
    })
}

/// Packs what the guest runs: all but the program itself, which lies in `files` for the guest's disk.
///
/// # Errors
/// What is missing.
pub fn initramfs(folder: &Path, version: &str, kernel: &Kernel, program: &Path) -> Result<PathBuf, String> {
    let root = folder.join(format!("root-{version}"));
    let _ = fs::remove_dir_all(&root);
    for name in ["bin", "proc", "sys", "dev", "tmp", "mnt", "modules"] {
        fs::create_dir_all(root.join(name)).map_err(failed(&root))?;
    }
    let busybox = command(folder, "sh", &["-c", "command -v busybox"])?;
    fs::copy(busybox.trim(), root.join("bin/busybox")).map_err(failed(&root))?;
    symlink("busybox", root.join("bin/sh")).map_err(failed(&root))?;
    let files = folder.join("files");
    fs::create_dir_all(&files).map_err(failed(&files))?;
    command(folder, "strip", &["-o", &path_text(&files.join("gannet")), &path_text(program)])?;
    let numactl = command(folder, "sh", &["-c", "command -v numactl"])?;
    fs::copy(numactl.trim(), root.join("bin/numactl")).map_err(failed(&root))?;
    for program in [program, Path::new(numactl.trim())] {
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
    let init = root.join("init");
    fs::write(root.join("modules/order"), order).map_err(failed(&root))?;
    fs::write(&init, include_str!("init.sh")).map_err(failed(&init))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).map_err(failed(&init))?;
    let packed = folder.join(format!("initramfs-{version}"));
    let script = format!("find . | cpio -o -H newc --quiet | gzip -1 > '{}'", packed.display());
    command(&root, "sh", &["-c", &script])?;
    Ok(packed)
}

/// Copies the libraries that a program is linked with to where it looks for them.
fn libraries(folder: &Path, program: &Path, root: &Path) -> Result<(), String> {
    let told = command(folder, "ldd", &[&program.to_string_lossy()])?;
    for path in told.split_whitespace().filter(|word| word.starts_with('/')) {
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
    fn a_module_is_found_however_deep_and_by_its_whole_name() {
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
