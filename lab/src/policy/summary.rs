//! Summarises by which factor each policy has more misses than the best peer, over all points of the table.

/// Ratios of a policy's misses to the best peer's misses, for Gannet and each peer in the order of the columns. The
/// first list is for streams without lifetimes, the second for streams with lifetimes.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    ratios: [Vec<Vec<f64>>; 2],
}

impl Summary {
    /// Adds a point. Returns the ratio of Gannet's misses to the best peer's; `-` without peers.
    pub fn add(&mut self, has_lifetimes: bool, ours: u64, peers: &[u64]) -> String {
        let Some(best) = peers.iter().min() else { return "-".into() };
        let of_best = |misses: u64| misses as f64 / (*best).max(1) as f64;
        let ratios: Vec<f64> = std::iter::once(ours).chain(peers.iter().copied()).map(of_best).collect();
        let text = format!("{:.3}", ratios[0]);
        self.ratios[usize::from(has_lifetimes)].push(ratios);
        text
    }

    /// Returns a table with a row for streams with lifetimes and a row for streams without. `peers` are the names of
    /// the peers' columns.
    pub fn text(&self, peers: &[&str]) -> String {
        let all: Vec<Vec<f64>> = self.ratios.concat();
        let names = columns(std::iter::once("gannet").chain(peers.iter().copied()));
        let mut text =
            format!("| misses / best peer's misses | points |{names}\n|---|---|{}\n", "---|".repeat(peers.len() + 1));
        for (what, points) in
            [("without lifetimes", &self.ratios[0]), ("with lifetimes", &self.ratios[1]), ("all", &all)]
        {
            if points.is_empty() {
                continue;
            }
            let cell = |column: usize| {
                let ratios = || points.iter().map(|point| point[column]);
                let mean = (ratios().map(f64::ln).sum::<f64>() / points.len() as f64).exp();
                format!("{mean:.3} ({:.3})", ratios().fold(0.0, f64::max))
            };
            text += &format!("| {what} | {} |{}\n", points.len(), columns((0..=peers.len()).map(cell)));
        }
        text
    }
}

/// Returns the cells of a row of a Markdown table.
pub fn columns(cells: impl Iterator<Item = impl std::fmt::Display>) -> String {
    cells.map(|cell| format!(" {cell} |")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_shows_the_geometric_mean_and_the_worst_ratio() {
        let mut summary = Summary::default();
        assert_eq!(summary.add(false, 20, &[10, 40]), "2.000");
        assert_eq!(summary.add(false, 5, &[10, 10]), "0.500");
        assert_eq!(summary.add(true, 5, &[]), "-");
        let text = summary.text(&["A", "B"]);
        assert!(text.contains("| without lifetimes | 2 | 1.000 (2.000) | 1.000 (1.000) | 2.000 (4.000) |"), "{text}");
        assert!(!text.contains("with lifetimes | 1"), "{text}");
    }
}
