//! The shared words. They are `std` atomics in production. Under `--cfg shuttle` every access is also a scheduling
//! point, so that the same store code runs under a scheduler that explores interleavings.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use std::sync::atomic::fence;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Lets a test copy the store's memory in its state before the next change of a word.
#[inline(always)]
pub(super) fn crash_point() {
    #[cfg(all(test, not(shuttle)))]
    crate::tests::crashes::point();
}

/// Lets the model scheduler switch threads at this point.
#[inline(always)]
fn schedule_point() {
    // The scheduler may switch threads at any access to one of its own atomics. Unlike a yield, such an access does not
    // report that this thread wants to wait.
    #[cfg(shuttle)]
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::Relaxed);
}

macro_rules! word {
    ($name:ident, $atomic:ident, $int:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name($atomic);

        impl $name {
            #[inline(always)]
            pub(crate) const fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }

            #[inline(always)]
            pub(crate) fn load(&self, order: Ordering) -> $int {
                schedule_point();
                self.0.load(order)
            }

            #[inline(always)]
            pub(crate) fn store(&self, value: $int, order: Ordering) {
                crash_point();
                schedule_point();
                self.0.store(value, order);
            }

            #[inline(always)]
            pub(crate) fn compare_exchange(&self, from: $int, to: $int, ok: Ordering) -> Result<$int, $int> {
                crash_point();
                schedule_point();
                self.0.compare_exchange(from, to, ok, Ordering::Relaxed)
            }

            #[inline(always)]
            pub(crate) fn fetch_add(&self, by: $int, order: Ordering) -> $int {
                crash_point();
                schedule_point();
                self.0.fetch_add(by, order)
            }

            #[inline(always)]
            #[allow(dead_code, reason = "not every width needs every operation")]
            pub(crate) fn fetch_sub(&self, by: $int, order: Ordering) -> $int {
                crash_point();
                schedule_point();
                self.0.fetch_sub(by, order)
            }

            #[inline(always)]
            #[allow(dead_code, reason = "not every width needs every operation")]
            pub(crate) fn fetch_max(&self, with: $int, order: Ordering) -> $int {
                crash_point();
                schedule_point();
                self.0.fetch_max(with, order)
            }

            #[inline(always)]
            #[allow(dead_code, reason = "not every width needs every operation")]
            pub(crate) fn fetch_or(&self, bits: $int, order: Ordering) -> $int {
                crash_point();
                schedule_point();
                self.0.fetch_or(bits, order)
            }

            #[inline(always)]
            #[allow(dead_code, reason = "not every width needs every operation")]
            pub(crate) fn fetch_and(&self, bits: $int, order: Ordering) -> $int {
                crash_point();
                schedule_point();
                self.0.fetch_and(bits, order)
            }

            #[inline(always)]
            #[allow(dead_code, reason = "not every width needs every operation")]
            pub(crate) fn swap(&self, value: $int, order: Ordering) -> $int {
                crash_point();
                schedule_point();
                self.0.swap(value, order)
            }
        }
    };
}

word!(Word32, AtomicU32, u32, "A shared word of 32 bits: item header, expiry, META, segment header fields.");
word!(Word64, AtomicU64, u64, "A shared word of 64 bits: index slot, integer value, CAS field, epochs, sequences.");
