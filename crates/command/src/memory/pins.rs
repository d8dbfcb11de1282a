//! The limit on pinned bytes of the store. The store cannot reuse the memory of a pinned value until the value has been
//! sent, which may take long if the client reads slowly.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// The maximum share of the store's memory that readers may pin, in percent.
const PIN_PERCENT: u64 = 5;

/// The budget of store bytes that readers may pin.
///
/// The limit is `bytes_max` bytes. While nothing is pinned, a pin is granted for a value of any length, even above the
/// limit.
#[derive(Debug)]
pub struct PinBudget {
    bytes_max: AtomicU64,
    used: AtomicU64,
    wanted: AtomicBool,
}

impl PinBudget {
    /// Creates the budget for a store of `memory_bytes` bytes.
    pub fn new(memory_bytes: u64) -> Self {
        let pins = Self { bytes_max: AtomicU64::new(0), used: AtomicU64::new(0), wanted: AtomicBool::new(false) };
        pins.follow(memory_bytes);
        pins
    }

    /// Adjusts the limit to a store of `memory_bytes` bytes.
    pub(crate) fn follow(&self, memory_bytes: u64) {
        self.bytes_max.store(memory_bytes / 100 * PIN_PERCENT, Relaxed);
    }

    /// Takes `bytes` bytes from the budget. If they are not available, returns false and records that a reader waits.
    pub fn grant(&self, bytes: u64) -> bool {
        let bytes_max = self.bytes_max.load(Relaxed);
        let take = |used: u64| (used == 0 || used + bytes <= bytes_max).then_some(used + bytes);
        let granted = self.used.fetch_update(AcqRel, Acquire, take).is_ok();
        if !granted {
            self.wanted.store(true, Relaxed);
        }
        granted
    }

    /// Takes `bytes` bytes from the budget if they are available, and returns false otherwise. Intended for a caller
    /// that can continue without the pin, so a refusal is not recorded.
    pub fn grant_optional(&self, bytes: u64) -> bool {
        let take = |used: u64| (used + bytes <= self.bytes_max.load(Relaxed)).then_some(used + bytes);
        self.used.fetch_update(AcqRel, Acquire, take).is_ok()
    }

    /// Returns `bytes` bytes to the budget.
    pub fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, AcqRel);
        assert!(before >= bytes, "more bytes were released than were granted");
    }

    /// Returns the number of bytes that are taken from the budget now.
    pub fn used(&self) -> u64 {
        self.used.load(Acquire)
    }

    /// Returns true if [`PinBudget::grant`] has refused a reader since the last call of this function.
    pub fn take_wanted(&self) -> bool {
        self.wanted.load(Relaxed) && self.wanted.swap(false, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_above_the_pin_budget_passes_alone_and_then_blocks_others() {
        let pins = PinBudget::new(2000);
        assert!(pins.grant(500));
        assert!(!pins.grant(1));
        assert!(pins.take_wanted() && !pins.take_wanted());
        pins.release(500);
        assert!(pins.grant(60) && !pins.grant(60) && pins.grant(40));
        assert_eq!(pins.used(), 100);
    }

    #[test]
    fn optional_pin_is_refused_above_the_bound_and_requests_no_reclaim() {
        let pins = PinBudget::new(2000);
        assert!(!pins.grant_optional(101) && pins.grant_optional(100) && !pins.grant_optional(1));
        assert!(!pins.take_wanted());
    }
}
