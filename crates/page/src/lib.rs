//! Building blocks of measurement reports. A report is one self-contained HTML file.
//!
//! ```text
//!   whole(title, section + section + <svg>)      svg      charts, drawn without a script
//!                                                words    numbers as people read them
//! ```
//!
//! Invariants: a page loads no script, font or picture; every text from outside goes through [`escape`].
#![forbid(unsafe_code)]

pub mod svg;
pub mod words;

use std::fmt::Write;

pub use svg::escape;

const STYLE: &str = include_str!("style.css");

/// Returns a complete page with `body` in it.
pub fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>\n{STYLE}</style></head>\n<body><main>\n{body}</main></body></html>\n",
        escape(title)
    )
}

/// Appends a section of the page with a heading.
pub fn section(out: &mut String, title: &str, content: &str) {
    let _ = writeln!(out, "<h2>{}</h2><div class=\"card\">{content}</div>", escape(title));
}

#[cfg(test)]
mod tests {
    use super::STYLE;

    /// Returns whether the rules for print give the elements of `selector` this declaration.
    fn prints(selector: &str, declaration: &str) -> bool {
        let (_, print) = STYLE.split_once("@media print").expect("a report can be printed");
        let rules = print.split('}').filter_map(|rule| rule.split_once('{'));
        rules.into_iter().any(|(selectors, declarations)| {
            selectors.split(',').any(|one| one.trim() == selector)
                && declarations.split(';').any(|one| one.trim() == declaration)
        })
    }

    #[test]
    fn printed_report_shows_all_parts_and_breaks_pages_between_them() {
        for part in [".card", "figure", "tr", ".tiles"] {
            assert!(prints(part, "break-inside: avoid"), "{part} is split by a page");
        }
        for head in ["h2", "summary"] {
            assert!(prints(head, "break-after: avoid"), "{head} ends a page");
        }
        for (part, declaration) in [
            ("main", "padding: 0 1px"),
            (".scroll", "overflow: visible"),
            ("pre", "white-space: pre-wrap"),
            ("details::details-content", "content-visibility: visible"),
        ] {
            assert!(prints(part, declaration), "{part}: {declaration}");
        }
    }
}
