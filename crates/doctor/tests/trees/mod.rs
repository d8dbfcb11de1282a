//! Trees of the files that checks read, composed from the kernel's documents and from what such hosts show.

mod machine;
mod process;

use gannet_doctor::Verdict;

/// Files by their paths. What lies in `/later` is the second reading, one second after the first.
pub type Files = [(&'static str, &'static str)];

/// The process in the trees.
pub const PID: u32 = 7;

/// A check's trees.
pub struct Case {
    pub id: &'static str,
    /// In both.
    pub common: &'static Files,
    pub good: &'static Files,
    /// Empty: the check tells and never judges.
    pub bad: &'static Files,
    /// Of the bad one.
    pub verdict: Verdict,
}

/// A check of files that `common` has not.
const fn case(id: &'static str, good: &'static Files, bad: &'static Files, verdict: Verdict) -> Case {
    Case { id, common: &[], good, bad, verdict }
}

pub static CASES: &[Case] = &{
    let (a, b) = (machine::CASES, process::CASES);
    let mut all = [const { case("", &[], &[], Verdict::Ok) }; machine::CASES.len() + process::CASES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < a.len() { copy(&a[at]) } else { copy(&b[at - a.len()]) };
        at += 1;
    }
    all
};

const fn copy(case: &Case) -> Case {
    Case { id: case.id, common: case.common, good: case.good, bad: case.bad, verdict: case.verdict }
}
