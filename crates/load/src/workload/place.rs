//! Assigns keys to targets.

use std::net::IpAddr;

use md5::{Digest as _, Md5};

use super::model::{Placement, Target};

/// Number of hash slots of a Redis Cluster.
pub const SLOTS: u16 = 16_384;
/// Number of ring points of a target of mean weight.
const POINTS: usize = 160;
/// Number of ring points per digest.
const POINTS_A_DIGEST: usize = 4;

/// The prepared assignment of keys to targets.
#[derive(Clone, Debug)]
pub enum Ring {
    /// Any target may get any key.
    Any,
    /// Points on the ring with their targets, in order.
    Ketama(Box<[(u32, u32)]>),
    /// The target of each slot.
    Slots(Slots),
}

impl Ring {
    /// Prepares the assignment for `targets`, which must have been validated. With fewer than two targets there is no
    /// choice.
    pub fn new(placement: Placement, targets: &[Target]) -> Self {
        match placement {
            _ if targets.len() < 2 => Self::Any,
            Placement::Any => Self::Any,
            Placement::Slots => Self::Slots(Slots::new(targets)),
            Placement::Ketama => Self::Ketama(points(targets)),
        }
    }

    /// Returns the target of `key`; 0 if any target may get it.
    pub fn target(&self, key: &[u8]) -> usize {
        match self {
            Self::Any => 0,
            Self::Ketama(points) => {
                let digest: [u8; 16] = Md5::digest(key).into();
                let hash = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
                let at = points.partition_point(|(point, _)| *point < hash);
                points[at % points.len()].1 as usize
            }
            Self::Slots(slots) => slots.owners[usize::from(slot(key))].into(),
        }
    }

    /// Returns whether targets own slots.
    pub const fn is_slots(&self) -> bool {
        matches!(self, Self::Slots(_))
    }

    /// Assigns slot `slot` to `target`.
    pub fn moved(&mut self, slot: u16, target: usize) {
        if let Self::Slots(slots) = self {
            slots.owners[usize::from(slot)] = target as u16;
        }
    }

    /// Returns the target that a server calls `host` and `port`, or `None` if there is none or slots are not in use. A
    /// server may send no host, or another name than the user. The target is then identified by its port, if no other
    /// target has that port.
    pub fn node(&self, host: &[u8], port: u16) -> Option<usize> {
        let Self::Slots(Slots { nodes, .. }) = self else { return None };
        let named = nodes.iter().position(|node| node.port == port && node.host.as_bytes() == host);
        named.or_else(|| {
            let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
            let mut near = nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.port == port && (host.is_empty() || host == b"?" || !is_address(&node.host)));
            near.next().filter(|_| near.next().is_none()).map(|(at, _)| at)
        })
    }
}

/// The known owner of each slot.
#[derive(Clone, Debug)]
pub struct Slots {
    owners: Box<[u16]>,
    nodes: Box<[Node]>,
}

/// A target under the name that servers use.
#[derive(Clone, Debug)]
struct Node {
    host: String,
    port: u16,
}

impl Slots {
    /// Divides the slots into equal ranges, as `redis-cli --cluster create` does.
    fn new(targets: &[Target]) -> Self {
        let run = f64::from(SLOTS) / targets.len() as f64;
        let owner = |slot| (0..targets.len()).rev().find(|at| (*at as f64 * run).round() <= f64::from(slot));
        let node = |target: &Target| {
            let (host, port) = target.address.rsplit_once(':').unwrap_or((&target.address, "0"));
            Node { host: host.trim_matches(['[', ']']).to_owned(), port: port.parse().unwrap_or(0) }
        };
        Self {
            owners: (0..SLOTS).map(|slot| owner(slot).unwrap_or(0) as u16).collect(),
            nodes: targets.iter().map(node).collect(),
        }
    }
}

/// Returns libmemcached's weighted ring: 40 digests of `ADDRESS-N` for a target of mean weight, four points each. The
/// port 11211 is omitted from the address.
fn points(targets: &[Target]) -> Box<[(u32, u32)]> {
    let sum = targets.iter().map(|target| f64::from(target.weight)).sum::<f64>() as f32;
    let mut points = Vec::new();
    for (at, target) in targets.iter().enumerate() {
        let named = target.address.strip_suffix(":11211").unwrap_or(&target.address);
        for number in 0..digests(target.weight as f32 / sum, targets.len()) {
            let digest: [u8; 16] = Md5::digest(format!("{named}-{number}")).into();
            for word in digest.chunks_exact(4) {
                points.push((u32::from_le_bytes([word[0], word[1], word[2], word[3]]), at as u32));
            }
        }
    }
    points.sort_unstable();
    points.into()
}

/// Returns the number of digests of a target with this share of the total weight. It uses single precision as
/// libmemcached does, which gives 39 digests to each of 61 equal targets.
fn digests(part: f32, targets: usize) -> usize {
    let points = part * POINTS as f32 / POINTS_A_DIGEST as f32 * targets as f32;
    ((f64::from(points) + 1e-10).floor() as usize).max(1)
}

/// Returns the hash slot of `key`: of the text between its first braces if there is any, otherwise of the whole key.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the CRC-16 with the polynomial 0x1021 from 0 (XMODEM), as the Redis Cluster specification requires.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(weights: &[u32]) -> Vec<Target> {
        let target = |(at, weight): (usize, &u32)| Target { address: format!("10.0.1.{at}:11211"), weight: *weight };
        weights.iter().enumerate().map(target).collect()
    }

    #[test]
    fn slots_are_the_specifications() {
        // The specification's own check value, and slots that servers report.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn keys_follow_target_weights_and_mostly_stay_when_target_is_removed() {
        let share = |ring: &Ring, count: usize| {
            let mut keys = vec![0; count];
            for number in 0..40_000 {
                keys[ring.target(format!("key-{number}").as_bytes())] += 1;
            }
            keys
        };
        let even = share(&Ring::new(Placement::Slots, &targets(&[1, 1, 1])), 3);
        assert!(even.iter().all(|keys| (12_500..14_200).contains(keys)), "{even:?}");
        let ring = Ring::new(Placement::Ketama, &targets(&[1, 1, 2]));
        let weighted = share(&ring, 3);
        assert!((8_000..12_500).contains(&weighted[0]) && (17_000..23_000).contains(&weighted[2]), "{weighted:?}");
        let all = Ring::new(Placement::Ketama, &targets(&[1, 1, 1, 1]));
        let fewer = Ring::new(Placement::Ketama, &targets(&[1, 1, 1]));
        let moved = (0..10_000).filter(|number| {
            let key = format!("key-{number}");
            all.target(key.as_bytes()) != 3 && all.target(key.as_bytes()) != fewer.target(key.as_bytes())
        });
        assert_eq!(moved.count(), 0, "only keys of the removed target move");
    }

    #[test]
    fn slots_are_split_like_redis_cli_and_follow_redirects() {
        let mut ring = Ring::new(Placement::Slots, &targets(&[1, 1, 1]));
        let owner = |ring: &Ring, slot: u16| match ring {
            Ring::Slots(slots) => slots.owners[usize::from(slot)],
            _ => panic!("the ring uses slots"),
        };
        let ends = [0, 5460, 5461, 10_922, 10_923, 16_383].map(|slot| owner(&ring, slot));
        assert_eq!(ends, [0, 0, 1, 1, 2, 2]);
        assert_eq!((ring.node(b"10.0.1.2", 11211), ring.node(b"10.0.1.9", 11211)), (Some(2), None));
        assert_eq!(ring.node(b"", 11211), None, "three targets have that port");
        ring.moved(slot(b"foo"), 0);
        assert_eq!(ring.target(b"foo"), 0);
        let named = |address: &str| Target { address: address.to_owned(), weight: 1 };
        let ring = Ring::new(Placement::Slots, &[named("localhost:1"), named("[::1]:2"), named("10.0.0.1:3")]);
        assert_eq!(ring.node(b"127.0.0.1", 1), Some(0), "a target with another name is identified by its port");
        assert_eq!((ring.node(b"::1", 2), ring.node(b"", 3), ring.node(b"10.0.0.2", 3)), (Some(1), Some(2), None));
        assert_eq!(Ring::new(Placement::Ketama, &targets(&[1, 1])).node(b"10.0.1.1", 11211), None);
    }

    #[test]
    fn one_target_has_every_key() {
        assert_eq!(Ring::new(Placement::Ketama, &targets(&[1])).target(b"a"), 0);
    }
}
