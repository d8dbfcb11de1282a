//! Trees of the files that checks read, composed according to the kernel's documentation and to files of real hosts.

mod devices;
mod machine;
mod process;

use gannet_doctor::Verdict;

/// Files by their paths. Files below `/later` are the second reading, one second after the first.
pub type Files = [(&'static str, &'static str)];

/// The id of the process in the trees.
pub const PID: u32 = 7;

/// The trees of a check.
pub struct Case {
    pub id: &'static str,
    /// The files of both trees.
    pub common: &'static Files,
    pub good: &'static Files,
    /// The files of the tree with the problem; empty if the check only reports and never has a bad verdict.
    pub bad: &'static Files,
    /// The verdict on the tree with the problem.
    pub verdict: Verdict,
}

/// Creates the trees of a check without common files.
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
