//! Object specifications, which describe the contents of a record's bins.
//!
//! `I`, `I4` (integers), `S:10` or `S10` (text), `B:1400` or `B1400` (bytes), `R:100:30` (bytes of which 30 percent are
//! random), `D` (a double). Commas separate several bins; `3*S10` means three equal ones.

use crate::workload::model::{LengthStep, Sizes};
use crate::workload::units::Share;

/// Highest number of bins, including repetitions.
const BINS_MAX: u64 = 1024;

/// The bins of a record in order: each bin's length in bytes and its random share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    kinds: Vec<(u64, f64)>,
}

/// Parses a specification. The error has the fault and its remedy.
pub fn read(text: &str) -> Result<Object, (String, &'static str)> {
    let mut kinds = Vec::new();
    for part in text.split(',') {
        let (times, kind) = match part.trim().split_once('*') {
            Some((times, kind)) => (times.trim().parse::<u64>().ok(), kind.trim()),
            None => (Some(1), part.trim()),
        };
        let wrong = || {
            (format!("'{part}' is not a kind of bin"), "write I, S:10, B:1400 or R:100:30, or for asbench I4 or S10")
        };
        let times = times.filter(|times| (1..=BINS_MAX).contains(times)).ok_or_else(wrong)?;
        if kinds.len() as u64 + times > BINS_MAX {
            return Err(("the record has more than 1024 bins".to_owned(), "use fewer bins"));
        }
        let kind = one(kind).ok_or_else(wrong)?;
        kinds.extend(std::iter::repeat_n(kind, times as usize));
    }
    Ok(Object { kinds })
}

fn one(kind: &str) -> Option<(u64, f64)> {
    let mut characters = kind.chars();
    let letter = characters.next()?;
    let rest = characters.as_str();
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let length = |text: &str| text.parse::<u64>().ok().filter(|bytes| *bytes > 0);
    match (letter, rest) {
        ('I' | 'D', "") => Some((8, 1.0)),
        ('I', bytes) => length(bytes).filter(|bytes| *bytes <= 8).map(|bytes| (bytes, 1.0)),
        ('S' | 'B', bytes) => length(bytes).map(|bytes| (bytes, 1.0)),
        ('R', both) => {
            let (bytes, percent) = both.split_once(':')?;
            let percent = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
            Some((length(bytes)?, percent / 100.0))
        }
        _ => None,
    }
}

impl Object {
    /// Returns the number of bins in the specification.
    pub fn bins(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the lengths of the fields of records with `bins` bins; the kinds of the specification repeat in order.
    pub fn value_bytes(&self, bins: u64) -> Sizes {
        let mut steps: Vec<LengthStep> = Vec::new();
        for (bytes, _) in self.kinds.iter().cycle().take(bins.min(BINS_MAX) as usize) {
            match steps.iter_mut().find(|step| step.from == *bytes) {
                Some(step) => step.weight += 1.0,
                None => steps.push(LengthStep { from: *bytes, to: *bytes, weight: 1.0 }),
            }
        }
        match *steps {
            [] => Sizes::Fixed(8),
            [LengthStep { from, .. }] => Sizes::Fixed(from),
            _ => Sizes::Steps(steps),
        }
    }

    /// Returns the share of the values that is not random.
    pub fn compressible(&self) -> Share {
        let bytes: f64 = self.kinds.iter().map(|(bytes, _)| *bytes as f64).sum();
        let random: f64 = self.kinds.iter().map(|(bytes, random)| *bytes as f64 * random).sum();
        Share(if bytes > 0.0 { ((bytes - random) / bytes).clamp(0.0, 1.0) } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_of_both_tools_are_read() {
        for (text, bins, sizes) in [
            ("I", 1, Sizes::Fixed(8)),
            ("I4", 1, Sizes::Fixed(4)),
            ("S:10", 10, Sizes::Fixed(10)),
            ("S10", 1, Sizes::Fixed(10)),
            ("B:1400", 1, Sizes::Fixed(1400)),
            ("10*S10", 10, Sizes::Fixed(10)),
            (
                "I,S:10,I",
                3,
                Sizes::Steps(vec![
                    LengthStep { from: 8, to: 8, weight: 2.0 },
                    LengthStep { from: 10, to: 10, weight: 1.0 },
                ]),
            ),
        ] {
            assert_eq!(read(text).unwrap().value_bytes(bins), sizes, "{text}");
        }
        assert_eq!((read("2*I4,S5").unwrap().bins(), read("S:1").unwrap().compressible()), (3, Share(0.0)));
        assert_eq!(read("R:100:30,B:100").unwrap().compressible(), Share(0.35));
    }

    #[test]
    fn invalid_bin_type_is_named_in_error() {
        for text in ["", "S", "S:", "S:0", "S:x", "I9", "R:10", "R:10:101", "0*I", "x*I", "[I4]", "{I4:S5}", "Q", "I,"]
        {
            let (what, _) = read(text).unwrap_err();
            assert!(what.contains("is not a kind of bin"), "{text}: {what}");
        }
        assert!(read("1024*I,I").unwrap_err().0.contains("1024"));
    }
}
