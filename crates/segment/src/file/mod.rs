//! A store's memory in a file: where what lies, how it is made, and why one that is there is refused.
//!
//! ```text
//!   superblock x 2 | kept words | stripes | notes x 2 | undo log | segment headers | tier's room | index .. | heap ..
//!   page 0, 1        page 2       3 .. 10   16 ..       on a page  on a page         on a page     on ALIGN   on ALIGN
//! ```
//!
//! Invariants:
//! - Where a part begins follows from segment size, number of segments and number of groups alone.
//! - Each part is a map of its own, so that it is reached as private memory is.
//! - A file is changed only once it is known to be this store's, or empty, or was asked to be made anew.
//! - Space for all that is in use is allocated: see [`arena::Map::allocate`].
//! - Where the index is in the process ([`IndexPlace::Dram`]), its place and that of the stripes are holes.

pub(crate) mod copy;
pub(crate) mod inspect;
pub(crate) mod notes;
pub(crate) mod superblock;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use arena::{Map, MapFile};
use base::clock::UnixMillis;

use crate::config::{Geometry, StartError, StoreConfig};
use crate::header::SegmentHeader;
use crate::index::{Bucket, GROUP_BUCKETS, GROUP_BYTES, GROUP_SLOTS, Index, STRIPES, Stripe};
use crate::kept::{Kept, KeptPage};
use crate::raw::{Array, Heap};
use crate::tier::TierPlan;
use crate::tier_room::TierRoom;
use crate::undo::{LOG_BYTES, UndoLog};
use notes::Notes;
use superblock::{Found, Superblock, Superblocks, VERSION};

const PAGE: u64 = arena::PAGE_BYTES as u64;
/// Sequences have so many bits: those that a CAS token has for them.
const SEQUENCE_BITS: u32 = 64 - crate::store::TOKEN_OFFSET_BITS;
/// Heap and index begin at a multiple of this, for huge pages to stand behind them.
const ALIGN: u64 = arena::HUGE_PAGE_BYTES as u64;
/// A heap smaller than this has no use for that.
const ALIGNED_FROM: u64 = 32 * ALIGN;
/// Where the notes begin.
const NOTES_AT: u64 = 16 * PAGE;
/// What of the undo log has its space from the start.
const UNDO_AT_ONCE: u64 = 8 * PAGE;
/// One half of the notes.
const NOTES_BYTES: u64 = 4 << 20;

/// The file of a store, opened by who may touch files.
#[derive(Clone, Debug)]
pub struct StoreFile {
    /// It is this process's alone.
    pub file: Arc<MapFile>,
    /// Whatever it holds is thrown away.
    pub reset: bool,
    /// Where the index is.
    pub index: IndexPlace,
}

/// Where the index of a store is that lies in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexPlace {
    /// In the file: it is there at once when the file is opened.
    #[default]
    File,
    /// In the process's own memory: it is made anew from the segments, while the store serves. For files that lie on
    /// what is slower than memory.
    Dram,
}

/// Why a store is not made in a file. But for `Io` and `Space`, the file is as it was.
#[derive(Debug)]
pub enum FileFault {
    /// The operating system's reason.
    Io(io::Error),
    /// There is no space for so many bytes.
    Space {
        /// What the whole takes.
        bytes: u64,
        /// The operating system's reason.
        error: io::Error,
    },
    /// It holds something that is no store's memory.
    Foreign,
    /// Neither copy of its superblock is whole, or it is not as long as that says, or what is in it does not hold
    /// together.
    Damaged(String),
    /// It is of another version.
    Version {
        /// Which.
        found: u64,
        /// The one that this build reads.
        known: u64,
    },
    /// It is of this version, from a build that lays things out otherwise.
    Layout,
    /// It was made for another memory.
    Memory {
        /// In bytes.
        found: u64,
        /// What was asked for, in bytes.
        asked: u64,
    },
    /// Its segments have another size.
    Segment {
        /// In bytes.
        found: u64,
        /// What was asked for, in bytes.
        asked: u64,
    },
    /// Its index is elsewhere than was asked for.
    Index {
        /// Where.
        found: IndexPlace,
    },
    /// Its second tier lies on another number of bytes; 0: there is none.
    Flash {
        /// In bytes.
        found: u64,
        /// What was asked for, in bytes.
        asked: u64,
    },
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ANEW: &str = "--file-reset throws its contents away and makes it anew";
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Space { bytes, error } => write!(
                f,
                "{bytes} bytes are not to be had there ({error}); make room, enlarge the file system, or give less \
                 --memory"
            ),
            Self::Foreign => {
                write!(f, "it holds something that is no memory of gannet; name another path; {ANEW}")
            }
            Self::Damaged(what) => write!(f, "it is damaged: {what}; {ANEW}"),
            Self::Version { found, known } => write!(
                f,
                "it is of version {found} and this build reads version {known}; start it with the build that made it; \
                 {ANEW}"
            ),
            Self::Layout => {
                write!(f, "a build made it that lays memory out otherwise; start it with that build; {ANEW}")
            }
            Self::Memory { found, asked } => {
                write!(f, "it was made for a memory of {found} bytes, not of {asked}; give that --memory; {ANEW}")
            }
            Self::Segment { found, asked } => {
                write!(f, "its segments have {found} bytes, not {asked}; give that --segment; {ANEW}")
            }
            Self::Index { found: IndexPlace::File } => {
                write!(f, "it was made with its index in the file; give --file-index file; {ANEW}")
            }
            Self::Index { found: IndexPlace::Dram } => {
                write!(f, "it was made without its index; give --file-index dram; {ANEW}")
            }
            Self::Flash { found: 0, .. } => write!(f, "it was made without --flash; start it without; {ANEW}"),
            Self::Flash { found, asked: 0 } => write!(
                f,
                "a part of its items is on flash of {found} bytes; give the --flash that it was made with; {ANEW}"
            ),
            Self::Flash { found, asked } => write!(
                f,
                "a part of its items is on flash of {found} bytes in all, not {asked}; give that --flash; {ANEW}"
            ),
        }
    }
}

impl std::error::Error for FileFault {}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// All that a store's words and bytes lie in.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) kept: KeptPage,
    pub(crate) stripes: Array<Stripe>,
    pub(crate) headers: Array<SegmentHeader>,
    pub(crate) buckets: Array<Bucket>,
    pub(crate) heap: Heap,
    /// Of a file alone.
    pub(crate) notes: Option<Notes>,
    /// Of a file alone.
    pub(crate) undo: Option<UndoLog>,
}

impl Ground {
    /// Private memory, for as much as the geometry says.
    pub(crate) fn private(geometry: &Geometry, segments: usize, huge_pages: bool) -> io::Result<Self> {
        let kept = KeptPage::private()?;
        Ok(Self {
            kept: kept.begun(Index::growth_of(geometry.groups_start), geometry.groups_start, segments),
            stripes: Array::reserve(STRIPES, false)?,
            headers: Array::reserve(geometry.segments_max, false)?,
            buckets: Index::private_buckets(geometry.groups_max, huge_pages)?,
            heap: Heap::reserve(geometry.segments_max * geometry.segment_bytes, huge_pages)?,
            notes: None,
            undo: None,
        })
    }
}

/// Where the parts of a file begin, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    stripes: u64,
    undo: u64,
    headers: u64,
    tier: u64,
    index: u64,
    heap: u64,
    end: u64,
}

/// Where each part begins and ends, by name, for tests that damage one.
#[cfg(all(test, not(shuttle)))]
pub(crate) fn parts(config: &StoreConfig) -> Vec<(&'static str, std::ops::Range<u64>)> {
    let geometry = Geometry::of(config).expect("sizes that fit");
    let Places { stripes, undo, headers, index, heap, .. } = Places::of(&geometry);
    let index_end = index + (geometry.groups_start * GROUP_BYTES) as u64;
    let headers_end = headers + (geometry.segments_max * size_of::<SegmentHeader>()) as u64;
    vec![
        ("superblock", 0..2 * PAGE),
        ("kept words", 2 * PAGE..2 * PAGE + 512),
        ("stripes", stripes..stripes + (STRIPES * size_of::<Stripe>()) as u64),
        ("notes", NOTES_AT..NOTES_AT + 256),
        ("undo log", undo..undo + PAGE),
        ("headers", headers..headers_end),
        ("index", index..index_end),
        ("heap", heap..heap + (geometry.segments_max * geometry.segment_bytes) as u64),
    ]
}

impl Places {
    fn of(geometry: &Geometry) -> Self {
        let heap_bytes = (geometry.segments_max * geometry.segment_bytes) as u64;
        let align = if heap_bytes < ALIGNED_FROM { PAGE } else { ALIGN };
        let undo = NOTES_AT + 2 * NOTES_BYTES;
        let headers = undo + LOG_BYTES as u64;
        let headers_bytes = (geometry.segments_max * size_of::<SegmentHeader>()) as u64;
        let tier = (headers + headers_bytes).next_multiple_of(PAGE);
        let index = (tier + geometry.tier_bytes).next_multiple_of(align);
        let heap = (index + (geometry.groups_max * GROUP_BYTES) as u64).next_multiple_of(align);
        let end = (heap + heap_bytes).next_multiple_of(align);
        Self { stripes: 3 * PAGE, undo, headers, tier, index, heap, end }
    }

    fn check() {
        const { assert!(size_of::<Kept>() as u64 == PAGE) };
        const { assert!(3 * PAGE + (STRIPES * size_of::<Stripe>()) as u64 <= NOTES_AT) };
    }
}

/// What a build lays out: it changes with every size and place that the sizes in the superblock do not say.
fn layout_hash() -> u64 {
    let sizes = [
        VERSION,
        PAGE,
        ALIGN,
        ALIGNED_FROM,
        NOTES_AT,
        NOTES_BYTES,
        notes::FRONT_BYTES as u64,
        LOG_BYTES as u64,
        STRIPES as u64,
        size_of::<Stripe>() as u64,
        size_of::<Kept>() as u64,
        size_of::<SegmentHeader>() as u64,
        GROUP_BYTES as u64,
        crate::slot::HEAP_BYTES_MAX,
        u64::from(crate::store::TOKEN_OFFSET_BITS),
        crate::item::SUM_BYTES as u64,
        u64::from(cfg!(target_endian = "big")),
    ];
    let bytes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// A file that is a store's, and its superblock.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) file: Arc<MapFile>,
    superblocks: Superblocks,
    pub(crate) block: Superblock,
    /// How it was left: `None`, it was made now.
    pub(crate) left: Option<Left>,
}

/// How a file was left by the process before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) clean: bool,
}

impl Held {
    /// Where the index is.
    pub(crate) fn index(&self) -> IndexPlace {
        index_of(&self.block)
    }

    /// Says that nobody works on it any more.
    pub(crate) fn close(&self, now: UnixMillis) {
        // A process that had a fault of its own says nothing.
        let clean = u64::from(!std::thread::panicking());
        self.superblocks.write(&Superblock { clean, closed_ms: now.0, ..self.block });
        let _ = self.file.sync();
    }
}

pub(crate) fn index_of(block: &Superblock) -> IndexPlace {
    if block.index_in_dram == 1 { IndexPlace::Dram } else { IndexPlace::File }
}

/// What the file holds, or that it may be made.
enum There {
    Store(Superblock),
    Nothing,
}

fn look(file: &Arc<MapFile>) -> Result<There, FileFault> {
    let bytes = file.bytes()?;
    if bytes == 0 {
        return Ok(There::Nothing);
    }
    if bytes < 2 * PAGE {
        return Err(FileFault::Foreign);
    }
    let superblocks = map_superblocks(file)?;
    match superblocks.find() {
        Found::Whole { block, .. } if block.made == 0 => Ok(There::Nothing),
        Found::Whole { block, .. } if block.file_bytes != bytes => {
            let what = format!("it has {bytes} bytes and says {}", block.file_bytes);
            Err(FileFault::Damaged(what))
        }
        Found::Whole { block, .. } => Ok(There::Store(block)),
        Found::OtherVersion(found) => Err(FileFault::Version { found, known: VERSION }),
        Found::OtherLayout => Err(FileFault::Layout),
        Found::Damaged => Err(FileFault::Damaged("neither copy of its superblock is whole".to_owned())),
        // Making it had only begun.
        Found::Blank if bytes == front_bytes(file) => Ok(There::Nothing),
        Found::Blank | Found::Foreign => Err(FileFault::Foreign),
    }
}

/// Both superblocks, in whole pages of the file system.
fn front_bytes(file: &MapFile) -> u64 {
    if file.medium() == arena::Medium::HugePages { ALIGN } else { 2 * PAGE }
}

fn map_superblocks(file: &Arc<MapFile>) -> io::Result<Superblocks> {
    let map = Map::of_file(file, 0, 2 * PAGE as usize, false)?;
    Ok(Superblocks::of(Array::of_map(map, 2), layout_hash()))
}

/// The store's sizes and its ground, in a file: as it was left, or made.
pub(crate) fn lay(
    config: &StoreConfig,
    store_file: &StoreFile,
    tier: Option<&TierPlan>,
    now: UnixMillis,
) -> Result<(Geometry, Ground, Held), StartError> {
    Places::check();
    let fault = |fault| StartError::File { path: store_file.file.path().to_owned(), fault };
    let there = if store_file.reset { There::Nothing } else { look(&store_file.file).map_err(fault)? };
    let segment_bytes = match there {
        There::Store(block) => Some(block.segment_bytes as u32),
        There::Nothing => config.segment_bytes,
    };
    // A file does not grow: its memory is the most that there will be.
    let sized = StoreConfig { memory_bytes_max: 0, segment_bytes, ..config.clone() };
    if let There::Store(block) = &there {
        tier_fits(tier, block).map_err(fault)?;
    }
    let geometry = match (&there, tier) {
        (There::Store(block), Some(_)) => geometry_of(&sized, block)?,
        (There::Nothing, Some(plan)) => {
            let groups = (plan.index_slots as usize).div_ceil(GROUP_SLOTS).max(1);
            Geometry::with_index(&sized, groups, plan.room_bytes())?
        }
        (_, None) => Geometry::of(&sized)?,
    };
    let held = match there {
        There::Store(block) => take(config, &geometry, store_file, block),
        There::Nothing => make(config, &geometry, store_file, tier.map_or(0, |plan| plan.bytes), now),
    }
    .map_err(fault)?;
    let ground = match held.left {
        Some(_) => ground_of(&geometry, config, &held.file, &held.block),
        None => ground(&geometry, config, &held.file, held.index()).map_err(FileFault::Io),
    };
    let ground = ground.map_err(fault)?;
    if held.left.is_some() {
        // From here on it is changed.
        held.superblocks.write(&held.block);
        if held.index() == IndexPlace::Dram {
            Index::begin_anew(&ground.kept);
        }
    } else {
        let segments = geometry.segments_for(config.memory_bytes, geometry.groups_start);
        let (kept, groups) = (ground.kept.clone(), geometry.groups_start);
        drop(kept.begun(Index::growth_of(groups), groups, segments));
        // Both copies: were one damaged, the other must not say that the file was never made.
        held.superblocks.write(&held.block);
        held.superblocks.write(&held.block);
    }
    Ok((geometry, ground, held))
}

/// A store with these sizes and that second tier could be opened in the file, which is looked at and left as it is,
/// even while another process works on it.
///
/// # Errors
/// See [`FileFault`].
pub fn file_fits(config: &StoreConfig, file: &StoreFile, tier: Option<&TierPlan>) -> Result<(), FileFault> {
    let There::Store(block) = look(&file.file)? else {
        return Err(FileFault::Damaged("it was not made to its end".to_owned()));
    };
    tier_fits(tier, &block)?;
    let segment_bytes = Some(block.segment_bytes as u32);
    let geometry = geometry_of(&StoreConfig { memory_bytes_max: 0, segment_bytes, ..config.clone() }, &block);
    let geometry = geometry.map_err(|error| FileFault::Damaged(error.to_string()))?;
    fits(config, &geometry, file, &block)
}

/// The second tier is the one that the superblock says.
fn tier_fits(tier: Option<&TierPlan>, block: &Superblock) -> Result<(), FileFault> {
    let (asked, room_bytes) = tier.map_or((0, 0), |plan| (plan.bytes, plan.room_bytes()));
    if block.flash_bytes != asked {
        return Err(FileFault::Flash { found: block.flash_bytes, asked });
    }
    if block.flash_room_bytes == room_bytes { Ok(()) } else { Err(FileFault::Layout) }
}

/// The sizes of a file with such a superblock, for a store of its memory and segments.
fn geometry_of(config: &StoreConfig, block: &Superblock) -> Result<Geometry, StartError> {
    if block.flash_bytes == 0 {
        return Geometry::of(config);
    }
    // As far as its header is whole: what is too large for the memory is refused there.
    let groups = block.groups_start.min(config.memory_bytes / GROUP_BYTES as u64).max(1);
    Geometry::with_index(config, groups as usize, block.flash_room_bytes.min(block.file_bytes))
}

/// What a second tier keeps in a file.
pub(crate) fn tier_room(geometry: &Geometry, held: &Held, plan: &TierPlan) -> io::Result<TierRoom> {
    TierRoom::in_file(plan, held, Places::of(geometry).tier)
}

/// What was asked for is what the superblock says.
fn fits(config: &StoreConfig, geometry: &Geometry, file: &StoreFile, block: &Superblock) -> Result<(), FileFault> {
    if index_of(block) != file.index {
        return Err(FileFault::Index { found: index_of(block) });
    }
    if block.memory_bytes != config.memory_bytes {
        return Err(FileFault::Memory { found: block.memory_bytes, asked: config.memory_bytes });
    }
    if let Some(asked) = config.segment_bytes.map(u64::from).filter(|asked| *asked != block.segment_bytes) {
        return Err(FileFault::Segment { found: block.segment_bytes, asked });
    }
    check_sizes(geometry, block)
}

/// Checks that a file is what was asked for.
fn take(config: &StoreConfig, geometry: &Geometry, file: &StoreFile, block: Superblock) -> Result<Held, FileFault> {
    fits(config, geometry, file, &block)?;
    let file = &file.file;
    let left = Some(Left { clean: block.clean == 1 });
    let block = Superblock { clean: 0, opened: block.opened + 1, ..block };
    Ok(Held { file: Arc::clone(file), superblocks: map_superblocks(file)?, block, left })
}

/// The sizes in the superblock are what this build makes of the memory and the segments there.
fn check_sizes(geometry: &Geometry, block: &Superblock) -> Result<(), FileFault> {
    let sizes = [geometry.segments_max, geometry.groups_start, geometry.groups_max].map(|size| size as u64);
    let same = sizes == [block.segments_max, block.groups_start, block.groups_max];
    if same && Places::of(geometry).end == block.file_bytes { Ok(()) } else { Err(FileFault::Layout) }
}

/// Makes the file, all but for the words that are kept: until they are there it says that it is not made.
fn make(
    config: &StoreConfig,
    geometry: &Geometry,
    StoreFile { file, index, .. }: &StoreFile,
    flash_bytes: u64,
    now: UnixMillis,
) -> Result<Held, FileFault> {
    let places = Places::of(geometry);
    let segments = geometry.segments_for(config.memory_bytes, geometry.groups_start);
    file.set_bytes(0)?;
    file.set_bytes(front_bytes(file))?;
    let groups = if *index == IndexPlace::File { geometry.groups_start } else { 0 };
    let bytes = NOTES_AT + geometry.tier_bytes + geometry.bytes_of(segments, groups);
    let space = |error| FileFault::Space { bytes, error };
    file.allocate(0, front_bytes(file)).map_err(space)?;
    let superblocks = map_superblocks(file)?;
    let block = Superblock {
        file_bytes: places.end,
        memory_bytes: config.memory_bytes,
        segment_bytes: geometry.segment_bytes as u64,
        segments_max: geometry.segments_max as u64,
        groups_start: geometry.groups_start as u64,
        groups_max: geometry.groups_max as u64,
        hash_seed: config.hash_seed,
        made_ms: now.0,
        index_in_dram: u64::from(*index == IndexPlace::Dram),
        flash_bytes,
        flash_room_bytes: geometry.tier_bytes,
        ..Superblock::default()
    };
    superblocks.write(&block);
    let allocated = file.set_bytes(places.end).map_err(FileFault::Io).and_then(|()| {
        let parts = [
            (0, NOTES_AT),
            // More of it is had when it is needed; without any no change of several keys could begin.
            (places.undo, UNDO_AT_ONCE),
            (places.headers, (geometry.segments_max * size_of::<SegmentHeader>()) as u64),
            (places.tier, geometry.tier_bytes),
            (places.index, (groups * GROUP_BYTES) as u64),
            (places.heap, (segments * geometry.segment_bytes) as u64),
        ];
        let mut parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
        parts.try_for_each(|(at, bytes)| file.allocate(at, bytes)).map_err(space)
    });
    if let Err(fault) = allocated {
        // What space was had is given back.
        let _ = file.set_bytes(0);
        return Err(fault);
    }
    let block = Superblock { made: 1, opened: 1, ..block };
    Ok(Held { file: Arc::clone(file), superblocks, block, left: None })
}

/// The words that are kept are such that everything else can be looked at.
fn check_kept(ground: &Ground, geometry: &Geometry) -> Result<(), FileFault> {
    let kept = &ground.kept;
    if !ground.notes.as_ref().is_some_and(Notes::is_sound) {
        return Err(FileFault::Damaged("its notes are not what was written".to_owned()));
    }
    let (end, next) = (kept.end.load(Acquire) as usize, kept.groups_next.load(Acquire) as usize);
    let growth = kept.growth.load(Acquire);
    let sequence = kept.sequence.load(Acquire);
    let flushed = kept.flushed.iter().map(|flushed| flushed.load(Acquire)).max().unwrap_or(0);
    if sequence == 0 || sequence >> SEQUENCE_BITS != 0 || flushed >= sequence {
        return Err(FileFault::Damaged(format!("its words say a sequence of {sequence}, and flushes up to {flushed}")));
    }
    if end <= geometry.segments_max && Index::is_growth(growth, next, geometry.groups_max) {
        return Ok(());
    }
    Err(FileFault::Damaged(format!("its words say {end} segments, a growth of {growth:#x} to {next} groups")))
}

/// The parts of a file that has such a superblock.
fn ground_of(
    geometry: &Geometry,
    config: &StoreConfig,
    file: &Arc<MapFile>,
    block: &Superblock,
) -> Result<Ground, FileFault> {
    check_sizes(geometry, block)?;
    let ground = ground(geometry, config, file, index_of(block))?;
    check_kept(&ground, geometry)?;
    Ok(ground)
}

fn ground(geometry: &Geometry, config: &StoreConfig, file: &Arc<MapFile>, index: IndexPlace) -> io::Result<Ground> {
    let places = Places::of(geometry);
    let map = |at: u64, bytes: usize, huge| Map::of_file(file, at, bytes, huge);
    let (buckets, headers) = (geometry.groups_max * GROUP_BUCKETS, geometry.segments_max);
    let heap_bytes = geometry.segments_max * geometry.segment_bytes;
    let kept = KeptPage::of(Array::of_map(map(2 * PAGE, PAGE as usize, false)?, 1));
    let (stripes, buckets) = match index {
        IndexPlace::File => (
            Array::of_map(map(places.stripes, STRIPES * size_of::<Stripe>(), false)?, STRIPES),
            Array::of_map(map(places.index, buckets * size_of::<Bucket>(), config.huge_pages)?, buckets),
        ),
        IndexPlace::Dram => {
            (Array::reserve(STRIPES, false)?, Index::private_buckets(geometry.groups_max, config.huge_pages)?)
        }
    };
    Ok(Ground {
        notes: Some(Notes::of(map(NOTES_AT, 2 * NOTES_BYTES as usize, false)?, kept.clone())),
        undo: Some(UndoLog::of(Array::of_map(map(places.undo, LOG_BYTES, false)?, LOG_BYTES / 8), kept.clone())),
        kept,
        stripes,
        headers: Array::of_map(map(places.headers, headers * size_of::<SegmentHeader>(), false)?, headers),
        buckets,
        heap: Heap::of_map(map(places.heap, heap_bytes, config.huge_pages)?).with_sums(),
    })
}
