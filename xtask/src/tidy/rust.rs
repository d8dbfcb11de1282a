//! Rules for Rust source, parsed as a syntax tree: function lengths, `unsafe`, forbidden calls, names.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Breach;
use super::tree::{File, Tree};

const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of a dispatcher's lines outside its `match`. A dispatcher is a function that is little more than one
/// `match` with short arms; [`FUNCTION_LINES_MAX`] does not apply to it.
const DISPATCHER_OUTSIDE_LINES_MAX: usize = 20;
/// Maximum number of lines of each arm of a dispatcher's `match`.
const DISPATCHER_ARM_LINES_MAX: usize = 12;

/// Crates that may contain `unsafe`, each with the directory in which it is allowed.
const UNSAFE_FOLDERS: [(&str, &str); 3] =
    [("arena", "crates/arena/"), ("io", "crates/io/"), ("segment", "crates/segment/src/layout/raw/")];

/// Crates that do no I/O and read no clock: their functions take bytes, time and randomness as arguments.
const CORES: &[&str] = &["segment", "protocol", "record", "rdb", "graph", "cluster"];
/// Crates whose code may run on data threads.
const DATA: &[&str] = &["arena", "segment", "protocol", "record", "rdb", "graph", "cluster", "io", "flash", "server"];

/// Crates in which `thread_local!` is forbidden: a worker must own its state. (`io` is not among them, because it
/// counts allocations by thread, for tests.)
const WORKERS: &[&str] = &["segment", "protocol", "flash", "server"];

/// A path, macro or method that must not be used, with the crates in which it is forbidden (all, if the list is empty)
/// and the alternative.
struct Forbidden {
    what: &'static str,
    crates: &'static [&'static str],
    instead: &'static str,
}

const FORBIDDEN_PATHS: [Forbidden; 8] = [
    Forbidden { what: "Instant::now", crates: CORES, instead: "take the time as an argument" },
    Forbidden { what: "SystemTime::now", crates: CORES, instead: "take the time as an argument" },
    Forbidden { what: "UnixMillis::now", crates: CORES, instead: "take the time as an argument" },
    Forbidden { what: "thread::spawn", crates: CORES, instead: "let `server` start threads" },
    Forbidden { what: "thread::sleep", crates: CORES, instead: "return, and let the caller wait" },
    Forbidden { what: "File::open", crates: CORES, instead: "take bytes as an argument" },
    Forbidden { what: "TcpStream::connect", crates: CORES, instead: "take bytes as an argument" },
    Forbidden { what: "process::exit", crates: DATA, instead: "return an error to the binary" },
];

/// Modules and crates that must not be used.
const FORBIDDEN_ROOTS: [Forbidden; 8] = [
    Forbidden { what: "std::fs", crates: CORES, instead: "take bytes as an argument" },
    Forbidden { what: "std::net", crates: CORES, instead: "take bytes as an argument" },
    Forbidden { what: "std::os", crates: CORES, instead: "use `io` and `arena` for system calls" },
    Forbidden { what: "std::process", crates: CORES, instead: "let the binary start processes" },
    Forbidden { what: "rustix", crates: CORES, instead: "use `io` and `arena` for system calls" },
    Forbidden { what: "tokio", crates: DATA, instead: "write a state machine on `io`'s reactor" },
    Forbidden { what: "async_std", crates: DATA, instead: "write a state machine on `io`'s reactor" },
    Forbidden { what: "smol", crates: DATA, instead: "write a state machine on `io`'s reactor" },
];

const FORBIDDEN_MACROS: [Forbidden; 7] = [
    Forbidden { what: "todo", crates: &[], instead: "write the real code" },
    Forbidden { what: "unimplemented", crates: &[], instead: "write the real code, or return a named error" },
    Forbidden { what: "dbg", crates: &[], instead: "write a `tracing` event, or nothing" },
    Forbidden { what: "println", crates: DATA, instead: "a `tracing` event" },
    Forbidden { what: "eprintln", crates: DATA, instead: "a `tracing` event" },
    Forbidden { what: "print", crates: DATA, instead: "a `tracing` event" },
    Forbidden { what: "thread_local", crates: WORKERS, instead: "use a field of the worker" },
];

const FORBIDDEN_METHODS: [Forbidden; 1] =
    [Forbidden { what: "unwrap", crates: &[], instead: "use `?`, or `expect` with the reason why it cannot fail" }];

/// Checks every Rust file of `tree`.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        match syn::parse_file(&file.text) {
            Ok(syntax) => check_file(file, &syntax, faults),
            Err(error) => faults.push(Breach::new(&file.path, error.span().start().line, error.to_string())),
        }
    }
}

fn check_file(file: &File, syntax: &syn::File, faults: &mut Vec<Breach>) {
    let name = file.crate_name().unwrap_or_default();
    let has_unsafe_crate = UNSAFE_FOLDERS.iter().any(|(allowed, _)| *allowed == name);
    if file.is_crate_root_module() && !has_unsafe_crate && !forbids_unsafe(syntax) {
        faults.push(Breach::new(&file.path, 1, "write `#![forbid(unsafe_code)]` below the crate's docs"));
    }
    let mut visitor = Visitor {
        file,
        crate_name: name,
        may_unsafe: UNSAFE_FOLDERS.iter().any(|(_, folder)| file.path.starts_with(folder)) || name.is_empty(),
        // An example is a program: it may print and read clocks, whatever its crate must not do.
        in_tests: file.is_test() || file.path.contains("/examples/") || name.is_empty(),
        faults,
    };
    visitor.visit_file(syntax);
}

fn forbids_unsafe(syntax: &syn::File) -> bool {
    let is_forbid = |attr: &syn::Attribute| {
        attr.path().is_ident("forbid") && attr.parse_args::<syn::Ident>().is_ok_and(|lint| lint == "unsafe_code")
    };
    syntax.attrs.iter().any(is_forbid)
}

struct Visitor<'a> {
    file: &'a File,
    crate_name: &'a str,
    may_unsafe: bool,
    in_tests: bool,
    faults: &'a mut Vec<Breach>,
}

impl Visitor<'_> {
    fn fault(&mut self, span: proc_macro2::Span, message: String) {
        self.faults.push(Breach::new(&self.file.path, span.start().line, message));
    }

    fn function(&mut self, name: &syn::Ident, whole: proc_macro2::Span, block: &syn::Block) {
        let lines = whole.end().line - name.span().start().line + 1;
        if lines > FUNCTION_LINES_MAX && !self.in_tests && !is_dispatcher(lines, block) {
            let message = format!("`{name}` has {lines} lines; split it, at most {FUNCTION_LINES_MAX} are allowed");
            self.fault(name.span(), message);
        }
        let text = name.to_string();
        let is_word = |word: &str| text.starts_with(word);
        if is_word("get_") && !["get_mut", "get_unchecked", "get_and_"].into_iter().any(is_word) {
            self.fault(name.span(), format!("`{text}`: remove `get_`"));
        }
    }

    fn type_name(&mut self, name: &syn::Ident) {
        for word in ["Manager", "Helper", "Util"] {
            if name.to_string().contains(word) {
                self.fault(name.span(), format!("`{name}`: use a name that describes the action instead of '{word}'"));
            }
        }
    }

    fn unsafe_token(&mut self, span: proc_macro2::Span) {
        if !self.may_unsafe {
            self.fault(
                span,
                "`unsafe` is allowed only in arena/, io/ or segment/src/layout/raw/, behind a safe function".into(),
            );
        }
    }

    fn forbidden(&mut self, list: &[Forbidden], span: proc_macro2::Span, matches: impl Fn(&str) -> bool) {
        if self.in_tests {
            return;
        }
        let is_here = |f: &&Forbidden| f.crates.is_empty() || f.crates.contains(&self.crate_name);
        if let Some(found) = list.iter().filter(is_here).find(|f| matches(f.what)) {
            self.fault(span, format!("`{}` is forbidden here; instead: {}", found.what, found.instead));
        }
    }
}

/// Returns whether a function is a dispatcher: little more than one `match` with short arms.
fn is_dispatcher(lines: usize, block: &syn::Block) -> bool {
    let matches = block.stmts.iter().filter_map(|stmt| match stmt {
        syn::Stmt::Expr(expr, _) => inner_match(expr),
        syn::Stmt::Local(local) => local.init.as_ref().and_then(|init| inner_match(&init.expr)),
        _ => None,
    });
    let length = |span: proc_macro2::Span| span.end().line - span.start().line + 1;
    let Some(longest) = matches.max_by_key(|found| length(found.span())) else { return false };
    let is_short = |arm: &syn::Arm| length(arm.span()) <= DISPATCHER_ARM_LINES_MAX;
    lines - length(longest.span()) <= DISPATCHER_OUTSIDE_LINES_MAX && longest.arms.iter().all(is_short)
}

fn inner_match(expr: &syn::Expr) -> Option<&syn::ExprMatch> {
    match expr {
        syn::Expr::Match(found) => Some(found),
        syn::Expr::Try(inner) => inner_match(&inner.expr),
        syn::Expr::Return(inner) => inner.expr.as_deref().and_then(inner_match),
        syn::Expr::Call(call) => call.args.iter().find_map(inner_match),
        _ => None,
    }
}

/// Adds every path that a `use` imports to `paths`.
fn used(prefix: &str, tree: &syn::UseTree, paths: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(path) => used(&format!("{prefix}{}::", path.ident), &path.tree, paths),
        syn::UseTree::Name(name) => paths.push(format!("{prefix}{}", name.ident)),
        syn::UseTree::Rename(rename) => paths.push(format!("{prefix}{}", rename.ident)),
        syn::UseTree::Glob(_) => paths.push(format!("{prefix}*")),
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| used(prefix, item, paths)),
    }
}

/// Returns whether `path` is `root` or below it.
fn is_in(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_for_tests(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let tokens = match &attr.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        attr.path().is_ident("test")
            || (attr.path().is_ident("cfg") && (tokens.contains("test") || tokens.contains("shuttle")))
    })
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let before = self.in_tests;
        self.in_tests |= is_for_tests(&item.attrs);
        visit::visit_item_mod(self, item);
        self.in_tests = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let before = self.in_tests;
        self.in_tests |= is_for_tests(&item.attrs);
        self.function(&item.sig.ident, item.span(), &item.block);
        visit::visit_item_fn(self, item);
        self.in_tests = before;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig.ident, item.span(), &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_expr_unsafe(&mut self, expr: &'ast syn::ExprUnsafe) {
        self.unsafe_token(expr.span());
        visit::visit_expr_unsafe(self, expr);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if signature.unsafety.is_some() {
            self.unsafe_token(signature.span());
        }
        if signature.asyncness.is_some() && self.crate_name != "grpc_peers" {
            self.fault(signature.span(), "no async runtime outside `lab/grpc_peers`: write a state machine".into());
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, expr: &'ast syn::ExprAsync) {
        if self.crate_name != "grpc_peers" {
            self.fault(expr.span(), "no async runtime outside `lab/grpc_peers`: write a state machine".into());
        }
        visit::visit_expr_async(self, expr);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut paths = Vec::new();
        used("", &item.tree, &mut paths);
        for path in paths {
            self.forbidden(&FORBIDDEN_ROOTS, item.span(), |what| is_in(&path, what));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.unsafety.is_some() {
            self.unsafe_token(item.span());
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let joined = names.join("::");
        self.forbidden(&FORBIDDEN_PATHS, path.span(), |what| {
            joined == what || joined.strip_suffix(what).is_some_and(|rest| rest.ends_with("::"))
        });
        self.forbidden(&FORBIDDEN_ROOTS, path.span(), |what| is_in(&joined, what));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        self.forbidden(&FORBIDDEN_MACROS, call.span(), |what| name == what);
        visit::visit_macro(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        self.forbidden(&FORBIDDEN_METHODS, call.method.span(), |what| name == what);
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut faults);
        faults.iter().map(Breach::to_string).collect()
    }

    const FORBID: &str = "#![forbid(unsafe_code)]\n";

    #[test]
    fn io_and_async_runtimes_are_reported_in_imports_and_paths() {
        let core = "crates/protocol/src/a.rs";
        assert_eq!(faults_of(core, "use std::{fmt, fs::File};").len(), 1);
        assert_eq!(faults_of(core, "use std::fs as disk;").len(), 1);
        assert_eq!(faults_of(core, "fn a() { let _ = std::net::TcpListener::bind(1); }").len(), 1);
        assert!(faults_of(core, "use std::fmt; use std::io; fn a() { std::mem::drop(1); }").is_empty());
        assert!(faults_of("crates/server/src/a.rs", "use std::fs;").is_empty());
        assert_eq!(faults_of("crates/server/src/a.rs", "use tokio::net;").len(), 1);
        assert_eq!(faults_of("crates/server/src/a.rs", "fn a() { let _ = async { 1 }; }").len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_is_found() {
        assert_eq!(faults_of("crates/server/src/lib.rs", "fn a() {}").len(), 1);
        assert!(faults_of("crates/server/src/lib.rs", FORBID).is_empty());
        assert!(faults_of("crates/io/src/lib.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn unsafe_outside_its_folder_is_found_but_not_the_word_in_a_comment() {
        let body = "fn a() { unsafe { b() } }";
        assert_eq!(faults_of("crates/segment/src/index.rs", body).len(), 1);
        assert!(faults_of("crates/segment/src/layout/raw/map.rs", body).is_empty());
        assert!(faults_of("crates/segment/src/index.rs", "// unsafe\nconst A: &str = \"unsafe {}\";").is_empty());
        assert_eq!(faults_of("crates/server/src/a.rs", "unsafe impl Send for A {}").len(), 1);
        assert_eq!(faults_of("crates/server/src/a.rs", "unsafe fn a() {}").len(), 1);
    }

    #[test]
    fn a_long_function_is_found_and_a_flat_dispatcher_is_not() {
        let long = format!("fn a() {{\n{}}}\n", "    b();\n".repeat(70));
        assert_eq!(faults_of("crates/server/src/a.rs", &long).len(), 1);
        let arms = "        1 => b(),\n".repeat(100);
        let flat = format!("fn a(x: u32) {{\n    match x {{\n{arms}        _ => c(),\n    }}\n}}\n");
        assert!(faults_of("crates/server/src/a.rs", &flat).is_empty());
        let deep = format!("fn a(x: u32) {{\n    match x {{\n        _ => {{\n{}        }}\n    }}\n}}\n", arms);
        assert_eq!(faults_of("crates/server/src/a.rs", &deep.replace("1 => b(),", "b();")).len(), 1);
        let test = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(faults_of("crates/server/src/a.rs", &test).is_empty());
    }

    #[test]
    fn clock_in_a_core_crate_and_unwrap_are_reported_except_in_tests() {
        assert_eq!(faults_of("crates/segment/src/a.rs", "fn a() { std::time::Instant::now(); }").len(), 1);
        assert!(faults_of("crates/server/src/a.rs", "fn a() { std::time::Instant::now(); }").is_empty());
        assert_eq!(faults_of("crates/server/src/a.rs", "fn a() { b().unwrap(); }").len(), 1);
        assert!(faults_of("crates/server/src/a.rs", "#[cfg(test)]\nmod t { fn a() { b().unwrap(); } }").is_empty());
        assert!(faults_of("crates/server/src/a.rs", "fn a() { b().unwrap_or(1); }").is_empty());
    }

    #[test]
    fn a_forbidden_macro_an_async_function_and_a_bad_name_are_found() {
        assert_eq!(faults_of("crates/gannet/src/a.rs", "fn a() { todo!() }").len(), 1);
        assert_eq!(faults_of("crates/server/src/a.rs", "fn a() { println!(\"x\"); }").len(), 1);
        assert!(faults_of("crates/gannet/src/a.rs", "fn a() { println!(\"x\"); }").is_empty());
        assert_eq!(faults_of("crates/server/src/a.rs", "async fn a() {}").len(), 1);
        assert_eq!(faults_of("crates/server/src/a.rs", "struct ConnManager;").len(), 1);
        assert_eq!(faults_of("crates/server/src/a.rs", "fn get_item() {}").len(), 1);
        assert!(faults_of("crates/server/src/a.rs", "fn get() {} fn get_mut() {}").is_empty());
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_fault() {
        assert_eq!(faults_of("crates/server/src/a.rs", "fn {").len(), 1);
    }
}
