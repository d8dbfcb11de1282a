//! Reads of a file through io_uring, into buffers that the kernel knows beforehand.
//!
//! ```text
//!   slot:  Free ──take──> Mine ──read──> Flying ──wait: it has ended──> Mine ──read, or give──> ...
//! ```
//!
//! A slot is a buffer with at most one read under way. Whoever has the ring looks at the bytes of a slot only while no
//! read is under way there, which is asserted.
//!
//! The file is opened past the page cache by who opens it, and reads begin and end at its blocks: then a read that is
//! submitted waits for the device alone, and many do at once from one thread.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;

use arena::Map;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::uring::Unavailable;
use crate::waker::Waker;

/// What ends a wait without a read: the waker, and a time.
const WAKER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Mine,
    Flying,
}

/// A read that has ended.
#[derive(Debug)]
pub struct DiskRead {
    /// Where its bytes are.
    pub slot: u16,
    /// How many there are.
    pub result: io::Result<usize>,
}

/// A ring for one file, and its slots.
pub struct DiskRing {
    ring: ManuallyDrop<IoUring>,
    /// The buffers of all slots, end to end.
    map: ManuallyDrop<Map>,
    /// Not registered: a killed process's ring would keep it open, and locked, until the kernel has taken it apart.
    file: OwnedFd,
    waker: Waker,
    slots: Vec<Slot>,
    slot_bytes: usize,
    flying: usize,
    armed: bool,
}

impl std::fmt::Debug for DiskRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskRing")
            .field("slots", &self.slots.len())
            .field("flying", &self.flying)
            .finish_non_exhaustive()
    }
}

impl DiskRing {
    /// A ring for a file, with so many slots of so many bytes, a multiple of a page; `waker` ends its waits.
    ///
    /// # Errors
    /// When the kernel has none, or refuses it: what was tried, its answer and a remedy.
    pub fn open(file: BorrowedFd<'_>, waker: &Waker, slots: u16, slot_bytes: usize) -> Result<Self, Unavailable> {
        assert!(slots > 0 && slot_bytes.is_multiple_of(arena::PAGE_BYTES), "{slots} slots of {slot_bytes} bytes");
        let step = |step| move |error| Unavailable::new(step, error);
        let file = file.try_clone_to_owned().map_err(step("a descriptor"))?;
        let map = Map::reserve(usize::from(slots) * slot_bytes, false).map_err(step("io_uring: memory for buffers"))?;
        map.populate(0, map.bytes()).map_err(step("io_uring: memory for buffers"))?;
        let ring = IoUring::builder()
            .setup_cqsize(4 * u32::from(slots))
            .dontfork()
            .build(u32::from(slots).next_power_of_two())
            .map_err(step("io_uring_setup"))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(step("io_uring: waiting for a time")(io::ErrorKind::Unsupported.into()));
        }
        let submitter = ring.submitter();
        let all = [libc::iovec { iov_base: map.start().as_ptr().cast(), iov_len: map.bytes() }];
        // SAFETY: 1. the bytes are those of the map, which is a field beside the ring and is freed after it, or never.
        unsafe { submitter.register_buffers(&all) }.map_err(step("io_uring: registering buffers"))?;
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            map: ManuallyDrop::new(map),
            file,
            waker: waker.clone(),
            slots: vec![Slot::Free; slots.into()],
            slot_bytes,
            flying: 0,
            armed: false,
        })
    }

    /// A slot that nobody has.
    pub fn take(&mut self) -> Option<u16> {
        let slot = self.slots.iter().position(|slot| *slot == Slot::Free)?;
        self.slots[slot] = Slot::Mine;
        Some(slot as u16)
    }

    /// A slot is not needed any more.
    pub fn give(&mut self, slot: u16) {
        assert!(self.slots[usize::from(slot)] == Slot::Mine, "slot {slot} is in use");
        self.slots[usize::from(slot)] = Slot::Free;
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Reads that are under way.
    pub fn flying(&self) -> usize {
        self.flying
    }

    /// What the last read of a slot left there.
    pub fn bytes(&self, slot: u16) -> &[u8] {
        assert!(self.slots[usize::from(slot)] == Slot::Mine, "slot {slot} is the kernel's");
        let at = usize::from(slot) * self.slot_bytes;
        // SAFETY: 1. the slot lies in the map; 2. its bytes were populated, zero or read from the file; 3. no read is
        // under way there (asserted), and one is begun through `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.map.start().as_ptr().add(at), self.slot_bytes) }
    }

    /// Begins a read of so many bytes, whole blocks, from `at` of the file.
    pub fn read(&mut self, slot: u16, at: u64, bytes: usize) {
        let number = usize::from(slot);
        assert!(self.slots[number] == Slot::Mine && bytes <= self.slot_bytes, "{bytes} bytes into slot {slot}");
        let address = self.map.start().as_ptr().wrapping_add(number * self.slot_bytes);
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::ReadFixed::new(file, address, bytes as u32, 0).offset(at).build();
        self.slots[number] = Slot::Flying;
        self.flying += 1;
        self.push(&entry.user_data(slot.into()));
    }

    /// Submits what was begun and waits until a read has ended, the waker rings or the time is over; gives the reads
    /// that have ended.
    ///
    /// # Errors
    /// When the kernel does not take the ring's entries any more.
    pub fn wait(&mut self, timeout: Option<std::time::Duration>, ended: &mut Vec<DiskRead>) -> io::Result<()> {
        if !std::mem::replace(&mut self.armed, true) {
            let events = u32::from(PollFlags::IN.bits());
            let entry = opcode::PollAdd::new(types::Fd(self.waker.as_fd().as_raw_fd()), events).build();
            self.push(&entry.user_data(WAKER));
        }
        let waited = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(time) => {
                let time = types::Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos());
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        match waited.map_err(|error| (error.raw_os_error().map(Errno::from_raw_os_error), error)) {
            Ok(_) | Err((Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        while let Some(entry) = self.ring.completion().next() {
            if entry.user_data() == WAKER {
                self.armed = false;
                self.waker.clear();
                continue;
            }
            let slot = entry.user_data() as u16;
            assert!(self.slots[usize::from(slot)] == Slot::Flying, "slot {slot} had no read");
            self.slots[usize::from(slot)] = Slot::Mine;
            self.flying -= 1;
            let result = match entry.result() {
                bytes if bytes >= 0 => Ok(bytes as usize),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
            ended.push(DiskRead { slot, result });
        }
        Ok(())
    }

    fn push(&mut self, entry: &squeue::Entry) {
        for _ in 0..1000 {
            // SAFETY: 1. a read names bytes of a slot that is Flying until the read has ended: nothing looks at them or
            // frees them before; 2. the map lives as long as the ring, and both for ever while a read is under way (see
            // drop); 3. all else in an entry is numbers.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            let _ = self.ring.submit();
        }
        panic!("a ring of our own takes no entries");
    }
}

impl Drop for DiskRing {
    fn drop(&mut self) {
        if self.flying > 0 {
            // A device has not answered: what it may still write to stays.
            return;
        }
        // SAFETY: 1. each is dropped once, here; 2. the ring before the memory that it knows; 3. no read is under way.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.map);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use rustix::fd::AsFd;

    use super::*;

    fn file_of(pages: u8) -> std::fs::File {
        let path = std::env::temp_dir().join(format!("gannet-disk-ring-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
        (0..pages).for_each(|page| file.write_all(&[page; 4096]).expect("written"));
        std::fs::remove_file(path).expect("removed");
        file
    }

    #[test]
    fn reads_come_back_in_their_slots_and_a_waker_and_a_time_end_a_wait() {
        let (file, waker) = (file_of(64), Waker::new().expect("a bell"));
        let mut ring = match DiskRing::open(file.as_fd(), &waker, 4, 8192) {
            Ok(ring) => ring,
            // Where the kernel has none, that is what is to be said.
            Err(refused) => return assert!(!refused.remedy.is_empty(), "{refused}"),
        };
        let (mut ended, mut seen) = (Vec::new(), 0);
        for round in 0..15u64 {
            let pages: Vec<(u16, u64)> = (0..4).map(|n| (ring.take().expect("one is free"), round * 4 + n)).collect();
            assert_eq!(ring.take(), None);
            pages.iter().for_each(|(slot, page)| ring.read(*slot, page * 4096, 8192));
            while ring.flying() > 0 {
                ring.wait(None, &mut ended).expect("waited");
            }
            for read in ended.drain(..) {
                let (_, page) = pages.iter().find(|(slot, _)| *slot == read.slot).expect("it was begun");
                assert_eq!(read.result.expect("read"), 8192);
                let bytes = ring.bytes(read.slot);
                assert!(bytes[..4096] == [*page as u8; 4096] && bytes[4096..] == [*page as u8 + 1; 4096]);
                ring.give(read.slot);
                seen += 1;
            }
        }
        assert_eq!(seen, 60);
        let slot = ring.take().expect("one is free");
        ring.read(slot, 64 * 4096, 4096);
        while ring.flying() > 0 {
            ring.wait(None, &mut ended).expect("waited");
        }
        assert_eq!(ended.pop().expect("it has ended").result.expect("no error"), 0, "there is nothing behind the end");
        waker.wake();
        ring.wait(None, &mut ended).expect("woken");
        ring.wait(Some(Duration::from_millis(1)), &mut ended).expect("the time is over");
        assert!(ended.is_empty());
    }
}
