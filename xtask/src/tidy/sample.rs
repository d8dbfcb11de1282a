//! Draws a random sample of doc comments and user-visible strings. A person reads it and judges whether each text is
//! clear at the first reading.
//!
//! The seed is the hash of the latest commit's parent, so that the author of a commit cannot choose its sample. Each
//! crate has its own random generator, so that a sample of one crate alone is the same as in the sample of all crates.

use std::io;
use std::path::Path;
use std::process::Command;

use base::prng::{Prng, split_mix};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::imports::{self, SourceFile, is_test};
use super::tree::{File, Tree};

/// Number of texts of each kind that are drawn from a crate.
const DRAWN: usize = 20;

/// Minimum number of words of a string literal that is sampled; a shorter literal is likely a name or a format.
const WORDS_MIN: usize = 3;

/// Macros whose strings are for developers.
const DEVELOPER_MACROS: [&str; 9] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
    "concat",
];

/// A doc comment or a string, with its file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SampledText {
    path: String,
    line: usize,
    text: String,
}

/// Returns the hash of the latest commit's parent.
///
/// # Errors
/// If git cannot be run, or if the latest commit has no parent.
pub fn parent_hash(root: &Path) -> io::Result<String> {
    let output = Command::new("git").current_dir(root).args(["rev-parse", "--verify", "HEAD~1"]).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(io::Error::other("cannot find the parent of the latest commit; pass --seed HASH"))
}

/// Prints a sample of each crate of `tree`, or of the crate `only`. Returns false if no crate has that name.
pub fn print(tree: &Tree, only: Option<&str>, seed: &str) -> bool {
    println!("seed {seed}");
    let sources = imports::sources(tree);
    let chosen = sources.iter().filter(|(name, _)| only.is_none_or(|only| only == **name));
    let mut is_found = false;
    for (name, files) in chosen {
        is_found = true;
        let [docs, strings] = sample(name, files, seed);
        for (kind, texts) in [("doc comments", docs), ("strings", strings)] {
            println!("\n{name}: {kind}");
            for SampledText { path, line, text } in texts {
                println!("{path}:{line}: {text}");
            }
        }
    }
    is_found
}

/// Draws doc comments and strings of one crate.
fn sample(name: &str, files: &[SourceFile<'_>], seed: &str) -> [Vec<SampledText>; 2] {
    let bytes = seed.bytes().chain([0]).chain(name.bytes());
    let mut prng = Prng::new(bytes.fold(0, |sum, byte| split_mix(sum ^ u64::from(byte))));
    let docs = files.iter().flat_map(|source| doc_comments(source.file)).collect();
    let strings = files.iter().flat_map(strings).collect();
    [draw(docs, &mut prng), draw(strings, &mut prng)]
}

/// Draws [`DRAWN`] of the texts, or all if there are fewer. Returns them in their original order.
fn draw(mut texts: Vec<SampledText>, prng: &mut Prng) -> Vec<SampledText> {
    let mut drawn = Vec::new();
    while drawn.len() < DRAWN && !texts.is_empty() {
        drawn.push(texts.swap_remove(prng.below(texts.len() as u64) as usize));
    }
    drawn.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    drawn
}

/// Returns the doc comments of a file, each as one line, without those of its test module.
fn doc_comments(file: &File) -> Vec<SampledText> {
    let mut comments: Vec<SampledText> = Vec::new();
    let mut last = (0, "");
    for (index, line) in file.text.lines().take(file.lines_without_tests()).enumerate() {
        let line = line.trim_start();
        let Some(mark) = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark)) else { continue };
        let text = line[mark.len()..].trim();
        match comments.last_mut().filter(|_| last == (index, mark)) {
            Some(comment) => comment.text = format!("{} {text}", comment.text).trim_end().to_owned(),
            None => comments.push(SampledText { path: file.path.clone(), line: index + 1, text: text.to_owned() }),
        }
        last = (index + 1, mark);
    }
    comments
}

/// Returns the strings of a file that users may see, without those of tests.
fn strings(source: &SourceFile<'_>) -> Vec<SampledText> {
    let mut strings = Strings { path: &source.file.path, found: Vec::new() };
    strings.visit_file(&source.syntax);
    strings.found
}

struct Strings<'a> {
    path: &'a str,
    found: Vec<SampledText>,
}

impl Strings<'_> {
    fn add(&mut self, literal: &syn::LitStr) {
        let text = literal.value();
        let is_word = |word: &&str| word.chars().filter(|letter| letter.is_alphabetic()).count() > 1;
        if text.split_whitespace().filter(is_word).count() >= WORDS_MIN {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.found.push(SampledText { path: self.path.to_owned(), line: literal.span().start().line, text });
        }
    }

    fn add_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(literal) = syn::Lit::new(literal) {
                        self.add(&literal);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Strings<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    /// Reads the strings of attributes such as `#[command(about = "...")]`. Doc comments are attributes too, and are
    /// skipped.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let (syn::Meta::List(list), false) = (&attribute.meta, attribute.path().is_ident("cfg")) {
            self.add_tokens(list.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.add(literal);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let name = invocation.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if !DEVELOPER_MACROS.contains(&name.as_str()) {
            self.add_tokens(invocation.tokens.clone());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        match call.method == "expect" {
            true => self.visit_expr(&call.receiver),
            false => visit::visit_expr_method_call(self, call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(texts: usize, seed: &str) -> [Vec<SampledText>; 2] {
        let items: String = (0..texts)
            .map(|i| {
                format!("/// Comment {i},\n/// second line.\nfn f{i}() {{ println!(\"item number {i} is here\") }}\n")
            })
            .collect();
        let tree = Tree::of(&[("crates/io/src/lib.rs", &items)]);
        let sources = imports::sources(&tree);
        sample("io", &sources["io"], seed)
    }

    #[test]
    fn same_seed_draws_the_same_sample_and_another_seed_a_different_sample() {
        let [docs, strings] = sampled(300, "a1");
        assert_eq!((docs.len(), strings.len()), (DRAWN, DRAWN));
        assert_eq!(sampled(300, "a1"), [docs.clone(), strings.clone()]);
        let [other_docs, other_strings] = sampled(300, "a2");
        assert!(docs != other_docs && strings != other_strings);
    }

    #[test]
    fn no_text_is_drawn_twice_and_few_are_drawn_whole() {
        let [docs, _] = sampled(300, "a1");
        let mut lines: Vec<usize> = docs.iter().map(|text| text.line).collect();
        lines.dedup();
        assert_eq!(lines.len(), DRAWN);
        let [docs, strings] = sampled(3, "a1");
        assert_eq!((docs.len(), strings.len()), (3, 3));
        let first =
            SampledText { path: "crates/io/src/lib.rs".into(), line: 1, text: "Comment 0, second line.".into() };
        assert_eq!(docs[0], first);
    }

    #[test]
    fn user_facing_strings_are_sampled_but_not_internal_or_test_strings() {
        let code = "#[command(about = \"shows all of it\")]\nstruct A;\n\
                    fn a() -> Result<(), String> { b.expect(\"it was made above\");\n\
                    assert!(c, \"it was made above\");\n\
                    let _ = \"SET\"; Err(format!(\"cannot open {}: {e}\", path(\"the last one here\"))) }\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"one two three\"; }\n";
        let tree = Tree::of(&[("crates/io/src/lib.rs", code)]);
        let sources = imports::sources(&tree);
        let found = strings(&sources["io"][0]);
        let found: Vec<(usize, &str)> = found.iter().map(|text| (text.line, text.text.as_str())).collect();
        assert_eq!(found, [(1, "shows all of it"), (5, "the last one here")]);
    }
}
