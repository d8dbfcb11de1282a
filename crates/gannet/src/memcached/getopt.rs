//! Parses a command line by the conventions of `getopt_long`. Letters may be joined (`-dv`), and values joined or
//! separate (`-p1`, `-p 1`, `--port=1`, `--port 1`). Long names may be abbreviated while they are unique. Operands may
//! be anywhere, and `--` ends the flags.

use base::nearest::nearest;

use super::flags::{Argument, FLAGS, Flag, NO_LETTER, by_letter};

/// An element of the command line.
#[derive(Debug)]
pub enum Word {
    /// A flag with its value.
    Flag(&'static Flag, Option<String>),
    /// An argument that is not a flag.
    Operand(String),
    /// A message about an argument that cannot be parsed.
    Fault(String),
}

/// Parses all of `args`.
pub fn read(args: impl IntoIterator<Item = String>) -> Vec<Word> {
    let mut words = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            words.extend(args.map(Word::Operand));
            break;
        } else if let Some(long) = arg.strip_prefix("--") {
            words.push(read_long(long, &mut args));
        } else if arg.len() > 1 && arg.starts_with('-') {
            read_letters(&arg[1..], &mut args, &mut words);
        } else {
            words.push(Word::Operand(arg));
        }
    }
    words
}

fn read_letters(letters: &str, args: &mut impl Iterator<Item = String>, words: &mut Vec<Word>) {
    for (at, letter) in letters.char_indices() {
        let rest = &letters[at + letter.len_utf8()..];
        let Some(flag) = by_letter(letter) else {
            words.push(Word::Fault(unknown_letter(letter)));
            continue;
        };
        if !matches!(flag.argument, Argument::Needed(_)) {
            words.push(Word::Flag(flag, None));
            continue;
        }
        let value = if rest.is_empty() { args.next() } else { Some(rest.to_owned()) };
        words.push(match value {
            Some(value) => Word::Flag(flag, Some(value)),
            None => Word::Fault(format!("-{letter} needs a value; write one after it")),
        });
        return;
    }
}

fn unknown_letter(letter: char) -> String {
    let swapped = if letter.is_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
    match by_letter(swapped) {
        Some(near) if near.name.is_empty() => format!("unknown flag -{letter}; did you mean -{swapped}?"),
        Some(near) => format!("unknown flag -{letter}; did you mean -{swapped} (--{})?", near.name),
        None => format!("unknown flag -{letter}; -h lists them"),
    }
}

fn read_long(long: &str, args: &mut impl Iterator<Item = String>) -> Word {
    let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
    let named = || FLAGS.iter().filter(|flag| !flag.name.is_empty());
    let exact = named().find(|flag| flag.name == name);
    // A flag that memcached does not have never makes an abbreviation ambiguous.
    let mut near = named().filter(|flag| flag.letter != NO_LETTER && !name.is_empty() && flag.name.starts_with(name));
    let flag = match (exact, near.next(), near.next()) {
        (Some(flag), _, _) | (None, Some(flag), None) => flag,
        (None, Some(one), Some(other)) => {
            return Word::Fault(format!(
                "--{name} is ambiguous: --{} or --{}; write the whole name",
                one.name, other.name
            ));
        }
        (None, None, _) => {
            let remedy = match nearest(name, named().map(|flag| flag.name)) {
                Some(known) => format!("did you mean --{known}?"),
                None => "-h lists them".to_owned(),
            };
            return Word::Fault(format!("unknown flag --{name}; {remedy}"));
        }
    };
    match (flag.argument, value) {
        (Argument::None, Some(_)) => Word::Fault(format!("--{} takes no value; remove it", flag.name)),
        (Argument::Needed(_), None) => match args.next() {
            Some(value) => Word::Flag(flag, Some(value)),
            None => Word::Fault(format!("--{} needs a value; write --{}=VALUE", flag.name, flag.name)),
        },
        (_, value) => Word::Flag(flag, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words of a command line in a short form: `p=1`, `d`, `+operand`, `!fault`.
    fn told(line: &str) -> String {
        let words = read(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned));
        let told = words.into_iter().map(|word| match word {
            Word::Flag(flag, Some(value)) => format!("{}={value}", flag.letter),
            Word::Flag(flag, None) => flag.letter.to_string(),
            Word::Operand(text) => format!("+{text}"),
            Word::Fault(text) => format!("!{text}"),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_way_to_write_a_flag_is_read() {
        assert_eq!(told("-p1 -p 1 --port=1 --port 1"), "p=1 p=1 p=1 p=1");
        assert_eq!(told("-dv -vv -dm64 -vl127.0.0.1"), "d v v v d m=64 v l=127.0.0.1");
        assert_eq!(told("--verbose --verbose=3 --por=1 --unix-s=/x"), "v v=3 p=1 s=/x");
        assert_eq!(told("x -d y -- -d"), "+x d +y +-d");
        assert_eq!(told("-p -1 -"), "p=-1 +-");
    }

    #[test]
    fn unknown_memcached_flag_suggests_the_nearest() {
        assert_eq!(told("-T"), "!unknown flag -T; did you mean -t (--threads)?");
        assert_eq!(told("-d9v"), "d !unknown flag -9; -h lists them v");
        assert_eq!(told("--thraeds=4"), "!unknown flag --thraeds; did you mean --threads?");
        assert_eq!(told("--nonsense-all"), "!unknown flag --nonsense-all; -h lists them");
        assert_eq!(
            told("--disable"),
            "!--disable is ambiguous: --disable-cas or --disable-flush-all; write the whole name"
        );
        assert_eq!(told("--="), "!unknown flag --; -h lists them");
    }

    #[test]
    fn a_value_too_few_or_too_many_is_a_fault() {
        assert_eq!(told("-d -p"), "d !-p needs a value; write one after it");
        assert_eq!(told("--port"), "!--port needs a value; write --port=VALUE");
        assert_eq!(told("--daemon=1 -d"), "!--daemon takes no value; remove it d");
    }
}
