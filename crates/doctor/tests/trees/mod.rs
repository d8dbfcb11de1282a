//! Trees of the files that checks read, composed from the kernel's documents and from what such hosts show.

mod devices;
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
    const COUNT: usize = machine::CASES.len() + process::CASES.len() + devices::CASES.len();
    let (a, b, c) = (machine::CASES, process::CASES, devices::CASES);
    let mut all = [const { case("", &[], &[], Verdict::Ok) }; COUNT];
    let mut at = 0;
    while at < all.len() {
        let (in_b, in_c) = (at.saturating_sub(a.len()), at.saturating_sub(a.len() + b.len()));
        all[at] = copy(if at < a.len() {
            &a[at]
        } else if in_b < b.len() {
            &b[in_b]
        } else {
            &c[in_c]
        });
        at += 1;
    }
    all
};

const fn copy(case: &Case) -> Case {
    Case { id: case.id, common: case.common, good: case.good, bad: case.bad, verdict: case.verdict }
}
