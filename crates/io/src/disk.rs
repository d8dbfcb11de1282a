//! Reads of files through io_uring, into buffers that are registered with the kernel.
//!
//! ```text
//!   slot:  Free ──take──> Mine ──read, submit──> Flying ──bell rings, reap──> Mine ──give──> Free
//!                                                                              └──read, submit──> Flying ...
//! ```
//!
//! A slot is a buffer with at most one read in flight. The ring's owner reads a slot's bytes only while no read is in
//! flight there, which is asserted. No method blocks. The kernel rings the bell for each completed read; the thread
//! that waits for the bell then reaps the completions.
//!
//! The owner opens files with O_DIRECT, which bypasses the page cache, and reads begin and end at block boundaries. So
//! a submitted read waits for the device only, and one thread can have many in flight. The kernel does its deferred
//! work for the submitting thread whenever that thread waits, for example for its bell.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;

use arena::Map;
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::uring::{Unavailable, restrict};
use crate::waker::Waker;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskSlot {
    Free,
    Mine,
    Flying,
}

/// A completed read.
#[derive(Debug)]
pub struct DiskRead {
    /// The slot that holds the bytes.
    pub slot: u16,
    /// The number of bytes read, or the error.
    pub result: io::Result<usize>,
}

/// An io_uring instance for files, with its slots.
pub struct DiskRing {
    ring: ManuallyDrop<IoUring>,
    /// The buffers of all slots, end to end.
    map: ManuallyDrop<Map>,
    /// The files. They are not registered with the ring: after a kill, registered files would stay open and locked
    /// until the kernel has destroyed the ring.
    files: Vec<OwnedFd>,
    bell: Waker,
    slots: Vec<DiskSlot>,
    slot_bytes: usize,
    flying: usize,
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
    /// Creates a ring for `files`, with `slots` slots of `slot_bytes` bytes, a multiple of a page. The kernel rings
    /// `bell`.
    ///
    /// # Errors
    /// If the kernel has no io_uring or refuses it: the failed step, the kernel's error and a remedy.
    pub fn open(files: &[BorrowedFd<'_>], bell: &Waker, slots: u16, slot_bytes: usize) -> Result<Self, Unavailable> {
        assert!(slots > 0 && slot_bytes.is_multiple_of(arena::PAGE_BYTES), "{slots} slots of {slot_bytes} bytes");
        let step = |step| move |error| Unavailable::new(step, error);
        let files = files.iter().map(|file| file.try_clone_to_owned()).collect::<io::Result<_>>();
        let files = files.map_err(step("cannot duplicate a file descriptor"))?;
        let map =
            Map::reserve(usize::from(slots) * slot_bytes, false).map_err(step("cannot allocate io_uring buffers"))?;
        map.populate(0, map.bytes()).map_err(step("cannot allocate io_uring buffers"))?;
        let entries = u32::from(slots).next_power_of_two();
        let ring = IoUring::builder()
            .dontfork()
            .setup_r_disabled()
            .build(entries)
            .map_err(step("cannot create an io_uring"))?;
        let submitter = ring.submitter();
        let all = [libc::iovec { iov_base: map.start().as_ptr().cast(), iov_len: map.bytes() }];
        // SAFETY: 1. the bytes belong to the map, which is a field beside the ring and is freed after the ring, or
        // never.
        unsafe { submitter.register_buffers(&all) }.map_err(step("cannot register io_uring buffers"))?;
        submitter
            .register_eventfd(bell.as_fd().as_raw_fd())
            .map_err(step("cannot register an eventfd with io_uring"))?;
        restrict(&ring, &[opcode::ReadFixed::CODE], Flags::empty())?;
        submitter.register_enable_rings().map_err(step("cannot enable an io_uring"))?;
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            map: ManuallyDrop::new(map),
            files,
            bell: bell.clone(),
            slots: vec![DiskSlot::Free; slots.into()],
            slot_bytes,
            flying: 0,
        })
    }

    /// Takes a free slot, if there is one.
    pub fn take(&mut self) -> Option<u16> {
        let slot = self.slots.iter().position(|slot| *slot == DiskSlot::Free)?;
        self.slots[slot] = DiskSlot::Mine;
        Some(slot as u16)
    }

    /// Releases a slot.
    pub fn give(&mut self, slot: u16) {
        assert!(self.slots[usize::from(slot)] == DiskSlot::Mine, "slot {slot} is in use");
        self.slots[usize::from(slot)] = DiskSlot::Free;
    }

    /// Returns the length of a slot in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Returns the number of reads in flight.
    pub fn flying(&self) -> usize {
        self.flying
    }

    /// Returns the bytes that the last read left in a slot.
    pub fn bytes(&self, slot: u16) -> &[u8] {
        assert!(self.slots[usize::from(slot)] == DiskSlot::Mine, "slot {slot} is the kernel's");
        let at = usize::from(slot) * self.slot_bytes;
        // SAFETY: 1. the slot lies in the map; 2. its bytes were populated, zero or read from the file; 3. no read is
        // in flight there (asserted), and only `&mut self` can start one.
        unsafe { std::slice::from_raw_parts(self.map.start().as_ptr().add(at), self.slot_bytes) }
    }

    /// Prepares a read of `bytes` bytes, whole blocks, from offset `at` of file number `file`. [`DiskRing::submit`]
    /// starts it.
    pub fn read(&mut self, slot: u16, file: usize, at: u64, bytes: usize) {
        let number = usize::from(slot);
        assert!(self.slots[number] == DiskSlot::Mine && bytes <= self.slot_bytes, "{bytes} bytes into slot {slot}");
        let address = self.map.start().as_ptr().wrapping_add(number * self.slot_bytes);
        let file = types::Fd(self.files[file].as_raw_fd());
        let entry = opcode::ReadFixed::new(file, address, bytes as u32, 0).offset(at).build().user_data(slot.into());
        self.slots[number] = DiskSlot::Flying;
        self.flying += 1;
        // SAFETY: 1. the read names bytes of a slot that is Flying until the read has completed: no code reads or frees
        // them before; 2. the map lives as long as the ring, and both are leaked if a read is still in flight (see
        // drop); 3. everything else in an entry is numbers.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // A slot has at most one entry, and the ring has at least as many entries as slots.
        assert!(pushed.is_ok(), "a ring of {} entries is full", self.slots.len());
    }

    /// Submits the prepared reads. If the kernel does not accept all of them now, the bell is rung, and the next call
    /// submits the rest.
    ///
    /// # Errors
    /// If the kernel no longer accepts the ring's entries.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit().map_err(|error| (error.raw_os_error().map(Errno::from_raw_os_error), error)) {
            Ok(_) | Err((Some(Errno::INTR | Errno::BUSY | Errno::AGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        if !self.ring.submission().is_empty() {
            self.bell.wake();
        }
        Ok(())
    }

    /// Appends the completed reads to `ended`.
    pub fn reap(&mut self, ended: &mut Vec<DiskRead>) {
        for entry in self.ring.completion() {
            let slot = entry.user_data() as u16;
            assert!(self.slots[usize::from(slot)] == DiskSlot::Flying, "slot {slot} had no read");
            self.slots[usize::from(slot)] = DiskSlot::Mine;
            self.flying -= 1;
            let result = match entry.result() {
                bytes if bytes >= 0 => Ok(bytes as usize),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
            ended.push(DiskRead { slot, result });
        }
    }
}

impl Drop for DiskRing {
    fn drop(&mut self) {
        if self.flying > 0 {
            // The device has not answered. It may still write to this memory, so the memory is leaked.
            return;
        }
        // SAFETY: 1. each field is dropped once, here; 2. the ring is dropped before the memory that is registered with
        // it; 3. no read is in flight.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.map);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn file_of(name: &str, pages: std::ops::Range<u8>) -> std::fs::File {
        let path = std::env::temp_dir().join(format!("gannet-disk-ring-{}-{name}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
        pages.for_each(|page| file.write_all(&[page; 4096]).expect("written"));
        std::fs::remove_file(path).expect("removed");
        file
    }

    /// Waits for the bell until all reads have completed.
    fn all_of(ring: &mut DiskRing, bell: &Waker) -> Vec<DiskRead> {
        ring.submit().expect("submitted");
        let mut ended = Vec::new();
        while ring.flying() > 0 {
            let mut fds = [PollFd::new(bell, PollFlags::IN)];
            assert_eq!(poll(&mut fds, None).expect("waited"), 1);
            bell.clear();
            ring.reap(&mut ended);
        }
        ended
    }

    #[test]
    fn file_reads_complete_in_their_slots_and_wake_the_reader() {
        let (files, bell) = ([file_of("a", 0..64), file_of("b", 100..164)], Waker::new().expect("a bell"));
        let mut ring = match DiskRing::open(&files.each_ref().map(AsFd::as_fd), &bell, 4, 8192) {
            Ok(ring) => ring,
            // A kernel without io_uring must be reported with a remedy.
            Err(refused) => return assert!(!refused.remedy.is_empty(), "{refused}"),
        };
        let mut seen = 0;
        for round in 0..15u64 {
            let pages: Vec<(u16, u64)> =
                (0..4).map(|n| (ring.take().expect("a slot is free"), round * 4 + n)).collect();
            assert_eq!(ring.take(), None);
            let file = (round % 2) as usize;
            pages.iter().for_each(|(slot, page)| ring.read(*slot, file, page * 4096, 8192));
            for read in all_of(&mut ring, &bell) {
                let (_, page) = pages.iter().find(|(slot, _)| *slot == read.slot).expect("the read was submitted");
                assert_eq!(read.result.expect("read"), 8192);
                let (bytes, page) = (ring.bytes(read.slot), *page as u8 + 100 * file as u8);
                assert!(bytes[..4096] == [page; 4096] && bytes[4096..] == [page + 1; 4096]);
                ring.give(read.slot);
                seen += 1;
            }
        }
        assert_eq!(seen, 60);
        let slot = ring.take().expect("a slot is free");
        ring.read(slot, 0, 64 * 4096, 4096);
        let mut ended = all_of(&mut ring, &bell);
        assert_eq!(
            ended.pop().expect("the read has completed").result.expect("no error"),
            0,
            "a read past the end returns no bytes"
        );
    }
}
