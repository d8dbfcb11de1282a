//! Divides the rows of the terminal among the parts of a page of `gannet top`.
//!
//! ```text
//!   head                                     always
//!   figures, as many in a line as fit        at least a third of the rows; all of them if every block has a row
//!   history                                  if nothing is missing
//!   blocks                                   a title and at least a row each, in their order
//!   … 2 tables and 3 figures do not fit      if something is missing
//! ```
//! A block whose rows do not all fit reports it in its title. Rows that are left over go to blocks that can show more.

use crate::screen::{CUT, Size, ViewLine, Weight};

/// The lines of the smallest block: its title and a row. A title without a row says nothing.
const LEAST: usize = 2;

/// The parts of a page.
pub(super) struct PageParts<'b> {
    pub(super) head: String,
    pub(super) figures: Vec<String>,
    /// A line that is left out first, without a mark: it repeats one of the figures.
    pub(super) history: Option<String>,
    pub(super) blocks: Vec<Block<'b>>,
}

/// A table, or lists side by side.
pub(super) struct Block<'b> {
    /// The name in the line about what does not fit.
    pub(super) name: String,
    /// Number of rows that the block shows if there is space. A block without rows is not shown.
    pub(super) rows: usize,
    /// Number of rows that the block can show when all blocks have theirs.
    pub(super) rows_max: usize,
    /// Formats the title and this number of rows.
    pub(super) lines: Box<dyn Fn(usize) -> Vec<(Weight, String)> + 'b>,
}

/// Formats the page so that it fits.
pub(super) fn arrange(page: PageParts<'_>, size: Size) -> Vec<ViewLine> {
    let PageParts { head, figures, history, blocks } = page;
    let blocks: Vec<Block<'_>> = blocks.into_iter().filter(|block| block.rows > 0).collect();
    let flowed = flow(&figures, size.columns);
    let (spare, least) = (size.rows.saturating_sub(1), LEAST * blocks.len());
    let fits = flowed.len() + least <= spare;
    let history = history.filter(|_| fits && flowed.len() + least < spare);
    let marks = usize::from(!fits);
    let figure_lines = match fits {
        true => flowed.len(),
        false => {
            flowed.len().min(spare.saturating_sub(least + marks).max(spare / 3).max(1)).min(spare - marks.min(spare))
        }
    };
    let mut room = spare.saturating_sub(figure_lines + usize::from(history.is_some()) + marks);
    let shown = blocks.len().min(room / LEAST);
    let wants = blocks[..shown].iter().map(|block| block.rows + 1);
    let has_gaps = fits && wants.clone().sum::<usize>() + shown <= room;
    room -= if has_gaps { shown } else { 0 };
    let given = allot(&blocks[..shown], room);

    let mut lines = vec![(Weight::Head, head)];
    lines.extend(flowed.into_iter().take(figure_lines).chain(history).map(|line| (Weight::Plain, line)));
    for (block, given) in blocks.iter().zip(given) {
        lines.extend(has_gaps.then(|| (Weight::Plain, String::new())));
        lines.extend((block.lines)(given - 1));
    }
    if !fits {
        let missing = figures.len() - figures_in(&figures, size.columns, figure_lines);
        lines.push((Weight::Head, mark(&blocks[shown..], missing, size.columns)));
    }
    lines.truncate(size.rows);
    lines.into_iter().map(|(weight, text)| ViewLine::new(weight, &text, size.columns)).collect()
}

/// Divides `room` lines among blocks: first a title and a row for each, then one line after the other.
fn allot(blocks: &[Block<'_>], room: usize) -> Vec<usize> {
    let mut given = vec![LEAST; blocks.len()];
    let mut left = room - LEAST * blocks.len();
    for rows_of in [|block: &Block<'_>| block.rows, |block: &Block<'_>| block.rows_max] {
        let mut grows = true;
        while grows && left > 0 {
            grows = false;
            for (given, block) in given.iter_mut().zip(blocks) {
                if *given <= rows_of(block) && left > 0 {
                    *given += 1;
                    left -= 1;
                    grows = true;
                }
            }
        }
    }
    given
}

/// Names what does not fit, and the remedy if that fits.
fn mark(blocks: &[Block<'_>], figures: usize, columns: usize) -> String {
    let number = |number: usize, one: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {one}s")),
    };
    let counts: Vec<String> = number(blocks.len(), "table").into_iter().chain(number(figures, "figure")).collect();
    let names: Vec<&str> = blocks.iter().map(|block| block.name.as_str()).collect();
    let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    let verb = if blocks.len() + figures == 1 { "does" } else { "do" };
    let line = format!("{CUT} {} {verb} not fit{names}", counts.join(" and "));
    let remedy = "; enlarge the terminal";
    if line.chars().count() + remedy.len() <= columns { line + remedy } else { line }
}

/// Joins figures to lines of at most `columns` characters.
fn flow(figures: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for figure in figures {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + figure.chars().count() <= columns => {
                line.push_str("  ");
                line.push_str(figure);
            }
            _ => lines.push(figure.clone()),
        }
    }
    lines
}

/// Returns the number of figures in the first `lines` lines.
fn figures_in(figures: &[String], columns: usize, lines: usize) -> usize {
    (0..=figures.len()).rev().find(|count| flow(&figures[..*count], columns).len() <= lines).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, rows: usize, rows_max: usize) -> Block<'static> {
        let title = name.to_owned();
        let lines = move |shown: usize| {
            let rows = (0..shown).map(|row| (Weight::Plain, format!("{title} row {row}")));
            std::iter::once((Weight::Head, format!("{title} {shown}"))).chain(rows).collect()
        };
        Block { name: name.to_owned(), rows, rows_max, lines: Box::new(lines) }
    }

    fn page(rows: usize, figures: usize, blocks: Vec<Block<'static>>) -> Vec<String> {
        let figures = (0..figures).map(|figure| format!("figure {figure} of all")).collect();
        let page = PageParts { head: "head".into(), figures, history: Some("history".into()), blocks };
        let lines = arrange(page, Size { columns: 20, rows });
        assert!(lines.len() <= rows, "{} lines in {rows} rows", lines.len());
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn page_fills_the_terminal_or_shows_everything() {
        let blocks = || vec![block("a", 5, 5), block("none", 0, 0), block("b", 2, 9)];
        for rows in 1..60 {
            let lines = page(rows, 3, blocks());
            let is_whole = lines.contains(&"a 5".to_owned()) && lines.contains(&"b 9".to_owned());
            // Blocks may each leave the half of a pair of rows that the next one needs.
            assert!(is_whole || rows - lines.len() <= 2, "{rows} rows: {lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("none")), "{lines:?}");
        }
        assert_eq!(page(usize::MAX, 3, blocks()).len(), 1 + 3 + 1 + 7 + 11);
    }

    #[test]
    fn missing_tables_and_figures_are_counted_in_the_last_line() {
        let blocks = || ["a", "b", "c"].map(|name| block(name, 4, 4)).into();
        assert_eq!(
            page(8, 4, blocks()),
            ["head", "figure 0 of all", "figure 1 of all", "a 1", "a row 0", "b 1", "b row 0", "… 1 table and 2 fig…"]
        );
        assert_eq!(page(2, 4, blocks())[1].chars().next(), Some(CUT));
        assert_eq!(mark(&[block("a", 1, 1)], 0, 80), "… 1 table does not fit: a; enlarge the terminal");
        assert_eq!(mark(&[], 3, 40), "… 3 figures do not fit");
    }
}
