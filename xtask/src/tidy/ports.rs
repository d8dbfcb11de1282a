//! Finds fixed ports in tests: literals that are bound, connected to, or passed to a program that a test starts.
//!
//! Two runs on one machine, or a server beside them, would meet on such a port. A test binds port 0 and reads the port
//! that the kernel chose. A function that runs its programs in a network namespace of its own (`unshare --net`) may use
//! any port. Shell scripts are not examined: they run in guests and in containers of their own.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Breach;
use super::tree::{File, Tree};

/// Functions and methods whose first argument is an address that is bound or connected to.
const OPENS: [&str; 5] = ["bind", "connect", "connect_timeout", "connect_to", "listen"];
/// Flags of programs whose value is an address or a port that is bound or connected to.
const FLAGS: [&str; 10] =
    ["--memcached", "--resp", "--admin", "--listen", "--target", "--port", "--bind", "--server", "-p", "-l"];
/// Such calls in the other languages of the tests.
const FOREIGN_CALLS: [&str; 8] =
    ["bind(", "connect(", "listen(", "Dial(", "Listen(", "create_connection(", "createConnection(", "new Socket("];
const FOREIGN_ENDINGS: [&str; 5] = [".py", ".go", ".js", ".mjs", ".java"];
/// Ports below it are privileged: a test that connects to one expects a refusal.
const FIRST_PORT: u32 = 1024;

/// Checks the tests of every file of `tree`.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    for file in &tree.files {
        if file.is_rust() {
            check_rust(file, faults);
        } else if is_test_folder(file) && FOREIGN_ENDINGS.iter().any(|ending| file.path.ends_with(ending)) {
            check_foreign(file, faults);
        }
    }
}

fn is_test_folder(file: &File) -> bool {
    file.is_test() || ["conformance/", "lab/", "xtask/"].iter().any(|folder| file.path.starts_with(folder))
}

fn fault(file: &File, line: usize, text: &str) -> Breach {
    Breach::new(&file.path, line, format!("{text}: a fixed port in a test; bind port 0 and use the port that it got"))
}

fn is_fixed(port: &str) -> bool {
    port.parse().is_ok_and(|port: u32| (FIRST_PORT..=u32::from(u16::MAX)).contains(&port))
}

/// Returns whether `text` is a port, or an address that ends with one.
fn is_fixed_address(text: &str) -> bool {
    is_fixed(text) || text.rsplit_once(':').is_some_and(|(host, port)| !host.contains(' ') && is_fixed(port))
}

/// Returns whether a command line in `text` passes a fixed port, or opens one as bash does.
fn has_fixed_port(text: &str) -> bool {
    let words: Vec<&str> = text.split([' ', '\n', '"', '\'', '=']).collect();
    let is_passed = |pair: &[&str]| pair[0].starts_with("--") && FLAGS.contains(&pair[0]) && is_fixed_address(pair[1]);
    let is_opened = |word: &&str| {
        word.split_once("/dev/tcp/").and_then(|(_, address)| address.rsplit_once('/')).is_some_and(|(_, p)| is_fixed(p))
    };
    words.windows(2).any(is_passed) || words.iter().any(is_opened)
}

fn check_foreign(file: &File, faults: &mut Vec<Breach>) {
    for (at, line) in file.text.lines().enumerate() {
        let Some(start) = FOREIGN_CALLS.iter().filter_map(|call| line.find(call)).min() else { continue };
        let call = &line[start..];
        let is_port = |word: &str| is_fixed(word.trim_end_matches(['"', '\'', '`']));
        if call.split([':', ' ', '(', ')', ',', ']', ';']).any(is_port) {
            faults.push(fault(file, at + 1, call));
        }
    }
}

fn check_rust(file: &File, faults: &mut Vec<Breach>) {
    // `rust` reports files that do not parse.
    let Ok(syntax) = syn::parse_file(&file.text) else { return };
    let mut visitor = PortVisitor {
        file,
        in_tests: is_test_folder(file),
        runs_programs: is_test_folder(file) && !file.path.ends_with("/tests.rs"),
        faults,
    };
    visitor.visit_file(&syntax);
}

struct PortVisitor<'a> {
    file: &'a File,
    in_tests: bool,
    /// Set if strings are examined as command lines; unit tests of parsers only parse them.
    runs_programs: bool,
    faults: &'a mut Vec<Breach>,
}

impl PortVisitor<'_> {
    fn report(&mut self, span: Span, text: &str) {
        self.faults.push(fault(self.file, span.start().line, text));
    }

    /// Returns whether the lines of a function run its programs in a network namespace of their own.
    fn is_isolated(&self, span: Span) -> bool {
        let lines = self.file.text.lines().take(span.end().line).skip(span.start().line.saturating_sub(1));
        let has = |word: &str| lines.clone().any(|line| line.contains(word));
        has("\"unshare\"") && has("\"--net\"")
    }

    fn opening(&mut self, name: &str, arguments: &syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>) {
        let Some(first) = arguments.first().filter(|_| self.in_tests && OPENS.contains(&name)) else { return };
        let mut literals = Literals::default();
        literals.visit_expr(first);
        for (span, text) in literals.found {
            if is_fixed_address(&text) {
                self.report(span, &text);
            }
        }
    }

    /// Examines words that follow one another, as in the arguments of a program.
    fn words<'ast>(&mut self, words: impl Iterator<Item = &'ast syn::Expr>) {
        let mut flag = false;
        for word in words {
            let text = string(word);
            if let Some(text) = text.as_ref().filter(|text| flag && self.runs_programs && is_fixed_address(text)) {
                self.report(word.span(), text);
            }
            flag = text.is_some_and(|text| FLAGS.contains(&text.as_str()));
        }
    }
}

/// The numbers and strings of an expression, outside the calls in it that compute something else.
#[derive(Default)]
struct Literals {
    found: Vec<(Span, String)>,
}

impl<'ast> Visit<'ast> for Literals {
    fn visit_lit(&mut self, lit: &'ast syn::Lit) {
        match lit {
            syn::Lit::Str(text) => self.found.push((lit.span(), text.value())),
            syn::Lit::Int(number) => self.found.push((lit.span(), number.base10_digits().to_owned())),
            _ => {}
        }
    }
}

fn string(expr: &syn::Expr) -> Option<String> {
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        syn::Expr::Reference(inner) => string(&inner.expr),
        _ => None,
    }
}

fn is_for_tests(attrs: &[syn::Attribute]) -> bool {
    let is_test_module = |attr: &syn::Attribute| {
        attr.path().is_ident("cfg") && attr.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
    };
    attrs.iter().any(|attr| attr.path().is_ident("test") || is_test_module(attr))
}

impl<'ast> Visit<'ast> for PortVisitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let before = (self.in_tests, self.runs_programs);
        self.in_tests |= is_for_tests(&item.attrs);
        // The unit tests of the tools have such ports in their examples.
        self.runs_programs &= !is_for_tests(&item.attrs);
        visit::visit_item_mod(self, item);
        (self.in_tests, self.runs_programs) = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !self.is_isolated(item.span()) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            let name = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            self.opening(&name, &call.args);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.opening(&call.method.to_string(), &call.args);
        // The replaced text of an example is not run.
        match call.method == "replace" {
            true => self.visit_expr(&call.receiver),
            false => visit::visit_expr_method_call(self, call),
        }
    }

    fn visit_expr_array(&mut self, array: &'ast syn::ExprArray) {
        self.words(array.elems.iter());
        visit::visit_expr_array(self, array);
    }

    fn visit_lit_str(&mut self, lit: &'ast syn::LitStr) {
        if self.runs_programs && has_fixed_port(&lit.value()) {
            self.report(lit.span(), &lit.value());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let mut faults = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut faults);
        faults.len()
    }

    const TESTS: &str = "crates/gannet/tests/program/a.rs";

    #[test]
    fn fixed_port_that_a_test_binds_or_connects_to_is_found() {
        for opening in [
            "TcpListener::bind(\"127.0.0.1:11311\")",
            "TcpStream::connect((\"127.0.0.1\", 6379))",
            "socket.connect(&SocketAddr::from(([127, 0, 0, 1], 9555)))",
        ] {
            let body = format!("fn a() {{ {opening}; }}");
            assert_eq!(count(TESTS, &body), 1, "{opening}");
            assert_eq!(count("crates/io/src/a.rs", &body), 0, "not a test");
            assert_eq!(count("crates/io/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {body} }}")), 1, "{opening}");
        }
        for free in ["TcpListener::bind(\"127.0.0.1:0\")", "TcpStream::connect(addr)", "connect(\"127.0.0.1:1\")"] {
            assert_eq!(count(TESTS, &format!("fn a() {{ {free}; }}")), 0, "{free}");
        }
    }

    #[test]
    fn fixed_port_that_a_program_of_a_test_gets_is_found() {
        assert_eq!(count(TESTS, "fn a() { run(&[\"serve\", \"--admin\", \"127.0.0.1:9555\"]); }"), 1);
        assert_eq!(count(TESTS, "fn a() { command.args([\"-p\", \"11211\"]); }"), 1);
        assert_eq!(count(TESTS, "const A: &str = \"serve --resp 127.0.0.1:6379 --workers 1\";"), 1);
        assert_eq!(count(TESTS, "const A: &str = \"exec 3<>/dev/tcp/127.0.0.1/11211\";"), 1);
        assert_eq!(count(TESTS, "fn a() { text.replace(\"--listen 127.0.0.1:11311\", b); }"), 0);
        assert_eq!(count(TESTS, "fn a() { run(&[\"--admin\", \"none\", \"--memcached\", \"127.0.0.1:0\"]); }"), 0);
        let alone = "fn a() { run(\"unshare\", [\"--net\", \"sh\", \"-c\", \"gannet top --admin 127.0.0.1:9555\"]); }";
        assert_eq!(count(TESTS, alone), 0);
    }

    #[test]
    fn fixed_port_of_a_client_suite_is_found() {
        let python = "conformance/clients/python/test_a.py";
        assert_eq!(count(python, "sock.connect((\"127.0.0.1\", 11211))\n"), 1);
        assert_eq!(count(python, "sock.connect((\"127.0.0.1\", server.port))\n"), 0);
        assert_eq!(count("conformance/clients/go/a_test.go", "net.Dial(\"tcp\", \"localhost:6379\")\n"), 1);
        assert_eq!(count("conformance/clients/go/a_test.go", "net.Listen(\"tcp\", \"localhost:0\")\n"), 0);
    }
}
