//! Checks the file system of a memory file at the start, and warns if it is unsuitable.

use std::path::Path;

/// The properties of a mount that matter to a memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    options: Vec<String>,
}

/// The requirements on the file system of a memory file.
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    /// The size of the whole memory, in bytes.
    pub memory_bytes: u64,
    /// True if huge pages were requested.
    pub huge_pages: bool,
}

/// The minimum memory size, in bytes, for which a mount with huge pages is recommended.
const HUGE_FROM_BYTES: u64 = 1 << 30;

/// Returns warnings about the file system of a memory file at `path`, one sentence in each. Returns none if the file
/// system is suitable or unknown.
pub fn warnings(path: &Path, asked: Requirements) -> Vec<String> {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return Vec::new() };
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let shared_huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    mount_of(&mounts, &whole).map(|mount| check(path, &mount, asked, &shared_huge)).unwrap_or_default()
}

/// Returns the mount of a path: the mount with the longest mount point that is a prefix of the path. If several mounts
/// have the same mount point, the last mount applies.
fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let mut found: Option<(usize, Mount)> = None;
    for line in mounts.lines() {
        // The fields of a line: id parent major:minor root point options optional... - kind source super-options
        // (proc(5)).
        let Some((front, back)) = line.split_once(" - ") else { continue };
        let (front, back): (Vec<&str>, Vec<&str>) = (front.split(' ').collect(), back.split(' ').collect());
        let (Some(point), Some(own), Some(kind)) = (front.get(4), front.get(5), back.first()) else { continue };
        let point = point.replace("\\040", " ");
        let is_longer = found.as_ref().is_none_or(|(length, _)| point.len() >= *length);
        if is_longer && path.starts_with(&point) {
            let options = own.split(',').chain(back.get(2).unwrap_or(&"").split(',')).map(str::to_owned).collect();
            found = Some((point.len(), Mount { kind: (*kind).to_owned(), options }));
        }
    }
    found.map(|(_, mount)| mount)
}

fn check(path: &Path, mount: &Mount, asked: Requirements, shared_huge: &str) -> Vec<String> {
    let (path, kind) = (path.display(), &mount.kind[..]);
    let has = |option: &str| mount.options.iter().any(|own| own == option || own.starts_with(&format!("{option}=")));
    let line = match kind {
        "tmpfs" => {
            let huge = mount.options.iter().find_map(|option| option.strip_prefix("huge=")).unwrap_or("never");
            let forced = shared_huge.contains("[force]");
            if !asked.huge_pages || asked.memory_bytes < HUGE_FROM_BYTES || huge != "never" || forced {
                return Vec::new();
            }
            format!(
                "the memory file {path} is on a tmpfs without huge pages, which slows reads of a large \
                 store; mount one for it with `mount -t tmpfs -o size={}M,huge=advise tmpfs DIR`",
                (asked.memory_bytes >> 20) * 17 / 16 + 64
            )
        }
        "hugetlbfs" | "ramfs" => return Vec::new(),
        "ext4" | "xfs" | "ext2" if has("dax") && !has("dax=never") && !has("dax=inode") => return Vec::new(),
        "ext4" | "xfs" | "ext3" | "ext2" => format!(
            "the memory file {path} is on {kind}: the kernel writes its pages back while the server runs, and a write \
             to such a page waits for milliseconds; tmpfs (/dev/shm) survives the same, except a power loss"
        ),
        "btrfs" | "zfs" | "bcachefs" | "f2fs" => format!(
            "the memory file {path} is on {kind}, which writes each page to a new place: the space reserved for \
             it is not enough, and the server ends when the disk is full; put it on tmpfs, or on ext4 or xfs"
        ),
        "overlay" | "aufs" => format!(
            "the memory file {path} is in a container's own layer ({kind}), and goes with the container; mount a \
             volume or a tmpfs there"
        ),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "glusterfs" | "afs" | "lustre" | "virtiofs" => format!(
            "the memory file {path} is on {kind}: its lock may not hold against other hosts, and the server ends \
             if that storage does not respond; put it on a file system of this host"
        ),
        other if other.starts_with("fuse") => format!(
            "the memory file {path} is on {kind}: each page goes through another process, and the server ends when \
             that does; put it on tmpfs, or on ext4 or xfs"
        ),
        _ => format!(
            "the memory file {path} is on {kind}, a file system about which nothing is known; docs/tuning/files.md \
             lists suitable ones"
        ),
    };
    vec![line]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
25 22 0:5 / /dev rw shared:2 - devtmpfs udev rw,size=8000k
26 25 0:23 / /dev/shm rw,nosuid shared:3 - tmpfs tmpfs rw
30 22 0:40 / /mnt/my\\040huge rw shared:9 - tmpfs tmpfs rw,size=17825792k,huge=advise
31 22 0:41 / /mnt/dax rw,relatime - xfs /dev/pmem0 rw,attr2,dax=always,noquota
32 22 0:42 / /net rw - nfs4 host:/x rw,vers=4.2
33 22 0:43 / /var/lib/docker/overlay2/1/merged rw - overlay overlay rw,lowerdir=/a
34 22 0:44 / /data rw - ext4 /dev/sdb rw
35 22 0:45 / /data rw - btrfs /dev/sdc rw
36 22 0:46 / /odd rw - newfs /dev/sdd rw
";

    fn describe(path: &str, memory_bytes: u64) -> String {
        let path = Path::new(path);
        let mount = mount_of(MOUNTS, path).expect("a mount");
        check(
            path,
            &mount,
            Requirements { memory_bytes, huge_pages: true },
            "always within_size advise [never] deny force",
        )
        .join("; ")
    }

    #[test]
    fn unsuitable_mounts_are_warned_about() {
        for (path, memory_bytes, expected) in [
            ("/dev/shm/gannet", 16 << 30, "huge=advise tmpfs DIR"),
            ("/dev/shm/gannet", 64 << 20, ""),
            ("/mnt/my huge/gannet", 16 << 30, ""),
            ("/mnt/dax/gannet", 16 << 30, ""),
            ("/var/gannet", 1 << 20, "is on ext4: the kernel writes its pages back"),
            ("/net/gannet", 1 << 20, "its lock may not hold"),
            ("/var/lib/docker/overlay2/1/merged/gannet", 1 << 20, "goes with the container"),
            ("/data/gannet", 1 << 20, "on btrfs"),
            ("/odd/gannet", 1 << 20, "nothing is known"),
            ("/dev/gannet", 1 << 20, "devtmpfs"),
        ] {
            let said = describe(path, memory_bytes);
            assert!(said.is_empty() == expected.is_empty() && said.contains(expected), "{path}: {said:?}");
        }
        let tmpfs = Mount { kind: "tmpfs".to_owned(), options: Vec::new() };
        let asked = Requirements { memory_bytes: 16 << 30, huge_pages: true };
        assert!(check(Path::new("/x"), &tmpfs, asked, "always [force]").is_empty());
        assert!(check(Path::new("/x"), &tmpfs, Requirements { huge_pages: false, ..asked }, "[never]").is_empty());
    }
}
