//! The parts of reports on measurements: one HTML file that needs no other file.
//!
//! ```text
//!   whole(title, section + section + <svg>)      svg      charts, drawn without a script
//!                                                words    numbers as people read them
//! ```
//!
//! Invariants: no script, no font, no picture from elsewhere; a text from outside goes through [`escape`].
#![forbid(unsafe_code)]

pub mod svg;
pub mod words;

use std::fmt::Write;

pub use svg::escape;

const STYLE: &str = include_str!("style.css");

/// A page of its own with `body` in it.
pub fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>\n{STYLE}</style></head>\n<body><main>\n{body}</main></body></html>\n",
        escape(title)
    )
}

/// A part of the page under a heading.
pub fn section(out: &mut String, title: &str, content: &str) {
    let _ = writeln!(out, "<h2>{}</h2><div class=\"card\">{content}</div>", escape(title));
}
