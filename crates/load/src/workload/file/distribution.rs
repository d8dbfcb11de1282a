//! Parses files with a distribution of lengths, or of the popularity of groups of keys.
//!
//! ```text
//! CSV   lengths:     BYTES,WEIGHT  or  FROM,TO,WEIGHT        popularity:  KEYS,WEIGHT        # begins a comment
//! JSON  cachebench's: valSizeRange and valSizeRangeProbability, popularityBuckets and popularityWeights
//! ```
//!
//! The lengths in a JSON file are the lower ends of ranges. A range ends before the next length; the last length is a
//! single value.

use std::path::Path;

use super::text_of;
use crate::workload::model::{LengthStep, STEPS_MAX, Sizes};

/// Largest size of a distribution file in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The reason why a file is not a distribution.
#[derive(Debug)]
pub struct BadDistribution {
    /// Description of the fault, with the file and the line.
    pub what: String,
    /// Remedy for the fault.
    pub remedy: String,
}

/// Reads the lengths in the file at `path`.
pub fn sizes(path: &Path) -> Result<Sizes, BadDistribution> {
    let text = text(path)?;
    if is_json(path) {
        return sizes_json(&text).map_err(|what| json_wrong(path, &what));
    }
    sizes_rows(path, &text)
}

/// Parses lengths from `text`, the content of the file at `path`.
pub fn sizes_rows(path: &Path, text: &str) -> Result<Sizes, BadDistribution> {
    let steps = rows(path, text, "BYTES,WEIGHT or FROM,TO,WEIGHT", |row| match *row {
        [bytes, weight] => Some(LengthStep { from: whole(bytes)?, to: whole(bytes)?, weight }),
        [from, to, weight] => Some(LengthStep { from: whole(from)?, to: whole(to)?, weight }),
        _ => None,
    })?;
    Ok(Sizes::Steps(steps))
}

/// Reads the groups of keys in the file at `path`, each with its weight.
pub fn popularity(path: &Path) -> Result<Vec<(u64, f64)>, BadDistribution> {
    let text = text(path)?;
    if is_json(path) {
        return popularity_json(&text).map_err(|what| json_wrong(path, &what));
    }
    popularity_rows(path, &text)
}

/// Parses groups of keys from `text`, the content of the file at `path`.
pub fn popularity_rows(path: &Path, text: &str) -> Result<Vec<(u64, f64)>, BadDistribution> {
    rows(path, text, "KEYS,WEIGHT", |row| match *row {
        [keys, weight] => Some((whole(keys)?, weight)),
        _ => None,
    })
}

/// Parses the lengths in cachebench's JSON text.
pub fn sizes_json(text: &str) -> Result<Sizes, String> {
    let (lengths, weights) = lists(text, "valSizeRange", "valSizeRangeProbability")?;
    let ends = lengths.iter().skip(1).map(|next| next - 1.0).chain(lengths.last().copied());
    let steps = lengths.iter().zip(ends).zip(&weights).map(|((from, to), weight)| {
        let (from, to) = (whole(*from)?, whole(to)?);
        (from <= to).then_some(LengthStep { from, to, weight: *weight })
    });
    let steps: Option<Vec<LengthStep>> = steps.collect();
    steps.map(Sizes::Steps).ok_or_else(|| "valSizeRange is not an ascending list of lengths".to_owned())
}

/// Parses the groups of keys in cachebench's JSON text, each with its weight.
pub fn popularity_json(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let (counts, weights) = lists(text, "popularityBuckets", "popularityWeights")?;
    let groups: Option<Vec<(u64, f64)>> =
        counts.iter().zip(&weights).map(|(count, weight)| Some((whole(*count)?, *weight))).collect();
    groups.ok_or_else(|| "popularityBuckets is not a list of whole numbers".to_owned())
}

fn lists(text: &str, values: &str, weights: &str) -> Result<(Vec<f64>, Vec<f64>), String> {
    let document: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("the text is not JSON: {error}"))?;
    let list = |name: &str| -> Result<Vec<f64>, String> {
        let list = document[name].as_array().ok_or_else(|| format!("the list {name} is missing"))?;
        let numbers: Option<Vec<f64>> = list.iter().map(serde_json::Value::as_f64).collect();
        numbers.ok_or_else(|| format!("{name} contains a value that is not a number"))
    };
    let (values, weights) = (list(values)?, list(weights)?);
    if values.len() == weights.len() && !values.is_empty() {
        Ok((values, weights))
    } else {
        Err(format!("there are {} values but {} weights", values.len(), weights.len()))
    }
}

fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number.fract() == 0.0 && number < 2f64.powi(53)).then_some(number as u64)
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

fn text(path: &Path) -> Result<String, BadDistribution> {
    text_of(path, FILE_BYTES_MAX).map_err(|(what, remedy)| BadDistribution {
        what: format!("{}: {what}", path.display()),
        remedy: remedy.into(),
    })
}

fn json_wrong(path: &Path, what: &str) -> BadDistribution {
    let remedy = "pass cachebench's sizes.json or pop.json, or a file with lines of comma-separated numbers";
    BadDistribution { what: format!("{}: {what}", path.display()), remedy: remedy.into() }
}

/// Parses the rows of a CSV text.
fn rows<T>(path: &Path, text: &str, form: &str, row: impl Fn(&[f64]) -> Option<T>) -> Result<Vec<T>, BadDistribution> {
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let numbers: Result<Vec<f64>, _> = line.split(',').map(|word| word.trim().parse::<f64>()).collect();
        match numbers.ok().and_then(|numbers| row(&numbers)) {
            Some(read) if rows.len() < STEPS_MAX => rows.push(read),
            Some(_) => {
                let what = format!("{}:{}: more than {STEPS_MAX} lines", path.display(), at + 1);
                return Err(BadDistribution { what, remedy: "merge adjacent lines".into() });
            }
            None => {
                let what = format!("{}:{}: cannot parse '{line}'", path.display(), at + 1);
                return Err(BadDistribution { what, remedy: format!("write each line as {form}") });
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("gannet-distribution-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn both_forms_are_read() {
        let path = file("sizes.csv", "# bytes\n64,3\n\n100,199,1.5 # more\n");
        let steps = vec![LengthStep { from: 64, to: 64, weight: 3.0 }, LengthStep { from: 100, to: 199, weight: 1.5 }];
        assert_eq!(sizes(&path).unwrap(), Sizes::Steps(steps));
        let path = file("s.json", r#"{"valSizeRange": [10, 20, 50], "valSizeRangeProbability": [1, 2, 3]}"#);
        let step = |from, to, weight| LengthStep { from, to, weight };
        assert_eq!(sizes(&path).unwrap(), Sizes::Steps(vec![step(10, 19, 1.0), step(20, 49, 2.0), step(50, 50, 3.0)]));
        let path = file("p.json", r#"{"popularityBuckets": [1, 9], "popularityWeights": [5, 5]}"#);
        assert_eq!(popularity(&path).unwrap(), [(1, 5.0), (9, 5.0)]);
        assert_eq!(popularity(&file("p.csv", "1,5\n9,5\n")).unwrap(), [(1, 5.0), (9, 5.0)]);
    }

    #[test]
    fn a_line_that_is_not_read_is_named_with_its_remedy() {
        for (name, text, at) in
            [("a.csv", "64,3\nx,1\n", ":2: "), ("b.csv", "1\n", ":1: "), ("c.csv", "-1,2\n", ":1: ")]
        {
            let wrong = sizes(&file(name, text)).unwrap_err();
            assert!(wrong.what.contains(at) && wrong.remedy.contains("BYTES,WEIGHT"), "{wrong:?}");
        }
        for (name, text) in
            [("d.json", "{"), ("e.json", "{}"), ("f.json", r#"{"valSizeRange":[1],"valSizeRangeProbability":[]}"#)]
        {
            assert!(sizes(&file(name, text)).unwrap_err().remedy.contains("cachebench"));
        }
        assert!(sizes(Path::new("/no/such/sizes.csv")).unwrap_err().remedy.contains("name a file"));
    }
}
