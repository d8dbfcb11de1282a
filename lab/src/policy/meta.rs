//! Describes three of Meta's caches, by their published popularity and value sizes (`data/meta-*`).
//!
//! The files describe 7 to 28 million keys. A stream has fewer keys. Each of its keys represents several keys that are
//! adjacent in the file's order of popularity, and is requested as often as all of these together.

use std::path::Path;

use base::prng::Prng;

use crate::replay::table::WeightTable;

/// The distributions of one cache.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Groups of equally popular keys in the file, the most popular first.
    groups: WeightTable,
    /// The end of each group, as a position from 0 to 1 among all keys.
    ends: Vec<f64>,
    sizes: WeightTable,
    edges: Vec<f64>,
    /// Share of accesses to keys that are requested once, from 0 to 1.
    pub once_share: f64,
}

impl Meta {
    /// Reads the files in `folder`.
    ///
    /// # Errors
    /// If a file is missing or has another format.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let json = |file: &str| -> Result<serde_json::Value, String> {
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (config, popularity, sizes) = (json("config.json")?, json("pop.json")?, json("sizes.json")?);
        let list = |from: &serde_json::Value, name: &str| -> Result<Vec<f64>, String> {
            let list = from[name].as_array().and_then(|list| list.iter().map(serde_json::Value::as_f64).collect());
            list.ok_or_else(|| format!("{}: {name} is not a list of numbers", folder.display()))
        };
        let keys = list(&popularity, "popularityBuckets")?;
        let sum: f64 = keys.iter().sum();
        let mut end = 0.0;
        let ends = keys.iter().map(|keys| {
            end += keys / sum;
            end
        });
        let once_share = config["test_config"]["loneGetRatio"].as_f64();
        Ok(Self {
            ends: ends.collect(),
            groups: WeightTable::new(list(&popularity, "popularityWeights")?),
            sizes: WeightTable::new(list(&sizes, "valSizeRangeProbability")?),
            edges: list(&sizes, "valSizeRange")?,
            once_share: once_share.ok_or_else(|| format!("{}: no loneGetRatio", folder.display()))?,
        })
    }

    /// Draws a key number below `keys`.
    pub fn key(&self, keys: usize, prng: &mut Prng) -> u64 {
        let group = self.groups.draw(prng);
        let begin = if group == 0 { 0.0 } else { self.ends[group - 1] };
        let place = begin + (self.ends[group] - begin) * prng.unit();
        ((place * keys as f64) as usize).min(keys - 1) as u64
    }

    /// Returns a value's length in bytes. `unit` selects a range of lengths by its weight, `part` a position in the
    /// range; both are in [0, 1).
    pub fn value_bytes(&self, unit: f64, part: f64) -> u64 {
        let range = self.sizes.at(unit);
        let low = self.edges[range];
        let high = self.edges.get(range + 1).copied().unwrap_or(low);
        (low + (high - low) * part) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_keys_get_their_share_of_requests_from_the_data_file() {
        let meta = Meta::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/meta-kvcache_reg")).expect("data");
        let mut prng = Prng::new(1);
        // According to the file, 0.0139817 of the keys are the most popular; the next 0.02 of the keys get 0.0751 of
        // the requests.
        let (keys, draws) = (100_000, 200_000);
        let popular = (0..draws).filter(|_| meta.key(keys, &mut prng) < 1_398).count();
        let share = popular as f64 / f64::from(draws);
        assert!((0.735..0.755).contains(&share), "{share} of the requests for the popular keys");
        let mean = (0..draws).map(|_| meta.value_bytes(prng.unit(), prng.unit())).sum::<u64>() / draws as u64;
        assert!((320..380).contains(&mean), "values of {mean} bytes");
    }
}
