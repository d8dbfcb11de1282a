//! Interprets an input's bytes as choices. Each choice consumes the next bytes, so a changed input changes the run, and
//! a shorter input ends it earlier.

use super::commands::{MEMCACHE, RESP};

/// Numbers near limits: of bytes, of 32 and 64 bits, of times, of segments and buffers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "10",
    "16",
    "63",
    "64",
    "65",
    "100",
    "127",
    "128",
    "255",
    "256",
    "257",
    "1000",
    "1023",
    "1024",
    "4095",
    "4096",
    "4097",
    "32767",
    "32768",
    "65535",
    "65536",
    "65537",
    "131072",
    "262144",
    "1048575",
    "1048576",
    "16777216",
    "2147483646",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967294",
    "4294967295",
    "4294967296",
    "1099511627776",
    "281474976710655",
    "1700000000",
    "1700000000000",
    "-1700000000000",
    "9223372036854775",
    "9223372036854774",
    "9223370336854775807",
    "9223372036854775307",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073708503040",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "-0",
    "+1",
    "01",
    "1.5",
    "-1.5",
    "1e308",
    "1.8e308",
    "-inf",
    "inf",
    "nan",
    "5e-324",
    "1e-400",
    "0x10",
    "",
    " ",
    "1 ",
    "\0",
];

/// Lengths of values near the limits for values that are inlined, copied, pinned, received in place, and stored in
/// pieces.
const LENGTHS: &[usize] = &[
    0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 40, 100, 250, 251, 1000, 1023, 1024, 1025, 4000, 4096, 5000, 8191, 8192, 8193,
    16_383, 16_384, 16_385, 20_000, 32_000, 32_768, 33_000, 65_535, 65_536, 65_537, 130_000, 131_072, 200_000, 262_143,
    262_144, 262_200, 300_000, 1_000_000, 1_048_576, 2_000_000,
];

/// The unread bytes of an input.
pub struct Choices<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Choices<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Returns a number below `count`, which is at most 65,536, or `None` at the end of the input.
    pub fn below(&mut self, count: u64) -> Option<u64> {
        let low = u64::from(self.byte()?);
        let all = if count > 256 { low | u64::from(self.byte()?) << 8 } else { low };
        Some(all % count.max(1))
    }

    /// Returns true in `part` of `whole` cases.
    pub fn chance(&mut self, part: u64, whole: u64) -> Option<bool> {
        Some(self.below(whole)? < part)
    }

    /// Returns one element of `all`.
    pub fn of<T>(&mut self, all: &'b [T]) -> Option<&'b T> {
        let at = self.below(all.len() as u64)? as usize;
        all.get(at)
    }

    fn number(&mut self) -> Option<Vec<u8>> {
        if self.chance(1, 3)? {
            return Some(self.below(300)?.to_string().into_bytes());
        }
        Some(NUMBERS[self.below(NUMBERS.len() as u64)? as usize].as_bytes().to_vec())
    }

    /// Returns a value of random length, usually short.
    fn value(&mut self) -> Option<Vec<u8>> {
        let len = match self.below(16)? {
            0..=8 => LENGTHS[self.below(16)? as usize],
            9..=13 => LENGTHS[self.below(28)? as usize],
            14 => LENGTHS[self.below(LENGTHS.len() as u64 - 3)? as usize],
            _ => LENGTHS[self.below(LENGTHS.len() as u64)? as usize],
        };
        let fill = *b"x0\r 9\xff".get(self.below(6)? as usize)?;
        Some(vec![fill; len])
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        Some(match self.below(24)? {
            0 => Vec::new(),
            1 => vec![b'k'; 250],
            2 => vec![b'k'; 251],
            3 => vec![b'k'; *LENGTHS.get(self.below(34)? as usize)?],
            4..=9 => format!("r{}", self.below(4)?).into_bytes(),
            number => format!("k{}", number % 6).into_bytes(),
        })
    }

    /// Returns a random word for a word of a template: see [`super::commands`].
    fn word(&mut self, token: &str) -> Option<Vec<u8>> {
        Some(match token {
            "@k" => self.key()?,
            "@v" => {
                if self.chance(1, 3)? {
                    self.number()?
                } else {
                    self.value()?
                }
            }
            "@n" | "@f" => self.number()?,
            "@u" => {
                if self.chance(1, 2)? {
                    b"0".to_vec()
                } else {
                    self.number()?
                }
            }
            "@g" => {
                let globs = ["*", "k*", "?", "[a-z]*", "\\", "[", "*1*", "**********a", "k[^1]", ""];
                globs[self.below(10)? as usize].as_bytes().to_vec()
            }
            "@c" => format!("ch{}", self.below(4)?).into_bytes(),
            "@s" => format!("s{}", self.below(3)?).into_bytes(),
            "@b" => match self.below(12)? {
                0 => self.value()?,
                number => format!("b{}", number % 5).into_bytes(),
            },
            "@user" => ["default", "u1", "u2", "nobody", ""][self.below(5)? as usize].as_bytes().to_vec(),
            "@rule" => self.rule()?,
            "@filter" => {
                let filters = ["b1==5", "b1>'x' && !has(b2)", "(((b1<9)))", "b1==", "contains(b1,'x')", "b1!=-0", "("];
                filters[self.below(7)? as usize].as_bytes().to_vec()
            }
            "@w" => match self.below(4)? {
                0 => self.value()?,
                1 => self.number()?,
                2 => self.key()?,
                _ => RESP[self.below(RESP.len() as u64)? as usize].0.as_bytes().to_vec(),
            },
            one_of if one_of.contains('|') => {
                let words: Vec<&str> = one_of.split('|').collect();
                let word = words[self.below(words.len() as u64)? as usize];
                if word.starts_with('@') { self.word(word)? } else { word.as_bytes().to_vec() }
            }
            plain => plain.as_bytes().to_vec(),
        })
    }

    fn rule(&mut self) -> Option<Vec<u8>> {
        let rules = [
            "on",
            "off",
            "nopass",
            ">pw",
            "<pw",
            "resetpass",
            "~*",
            "~k*",
            "%R~k*",
            "allkeys",
            "resetkeys",
            "&*",
            "&c*",
            "allchannels",
            "resetchannels",
            "+@all",
            "-@all",
            "+get",
            "-set",
            "+@read",
            "+config|get",
            "ns=1",
            "allns",
            "reset",
            "#12",
            "!12",
            "zzz",
            "%RW~",
            "+",
            "",
        ];
        match self.below(34)? as usize {
            long @ 30.. => Some([["~", "&", "%R~", ">"][long - 30].as_bytes(), &self.value()?[..]].concat()),
            plain => Some(rules[plain].as_bytes().to_vec()),
        }
    }

    /// Appends the words of an expanded template. `[ ... ]` is optional, and `{ ... }` occurs zero to nine times.
    fn expand(&mut self, template: &[&str], words: &mut Vec<Vec<u8>>) -> Option<()> {
        let mut at = 0;
        while at < template.len() {
            let token = template[at];
            if token != "[" && token != "{" {
                words.push(self.word(token)?);
                at += 1;
                continue;
            }
            let close = closing(template, at);
            let times = if token == "[" { self.below(2)? } else { self.below(10)? };
            for _ in 0..times {
                self.expand(&template[at + 1..close], words)?;
            }
            at = close + 1;
        }
        Some(())
    }

    /// Damages the words of a request in one case of ten.
    fn spoil(&mut self, words: &mut Vec<Vec<u8>>) -> Option<()> {
        if !self.chance(1, 10)? {
            return Some(());
        }
        let at = self.below(words.len() as u64)? as usize;
        match self.below(4)? {
            0 => words.truncate(at.max(1)),
            1 => words.insert(at.max(1), self.word("@w")?),
            2 => words[at] = self.number()?,
            _ => words[at] = self.value()?,
        }
        Some(())
    }

    /// Returns a random Redis request in its wire format, sometimes with very many arguments.
    pub fn resp_request(&mut self) -> Option<Vec<u8>> {
        let (name, templates) = &RESP[self.below(RESP.len() as u64)? as usize];
        let template = templates[self.below(templates.len() as u64)? as usize];
        let mut words = vec![name.as_bytes().to_vec()];
        self.expand(&template.split_whitespace().collect::<Vec<_>>(), &mut words)?;
        self.spoil(&mut words)?;
        // Many arguments, so that a request has more keys than one visit, or than one buffer.
        if words.len() > 1 && self.chance(1, 60)? {
            let times = *[70, 300, 5000].get(self.below(3)? as usize)?;
            let tail: Vec<_> = words[1..].iter().filter(|word| word.len() < 40).cloned().collect();
            words.extend(tail.into_iter().cycle().take(times));
        }
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        if request.len() < 200 && self.chance(1, 30)? {
            return Some(request.repeat(*[20, 200, 2000].get(self.below(3)? as usize)?));
        }
        Some(request)
    }

    /// Returns a random memcached request in its wire format.
    pub fn memcache_request(&mut self) -> Option<Vec<u8>> {
        let template = MEMCACHE[self.below(MEMCACHE.len() as u64)? as usize];
        let (line, has_value) = match template.strip_suffix(" ...") {
            Some(line) => (line, true),
            None => (template, false),
        };
        let value = if has_value { self.value()? } else { Vec::new() };
        // The announced length, which is correct in most cases.
        let right = value.len().to_string();
        let wrong = self.number()?;
        let len = if self.chance(19, 20)? { right } else { String::from_utf8_lossy(&wrong).into_owned() };
        let tokens: Vec<&str> =
            line.split_whitespace().map(|token| if token == "@len" { &len } else { token }).collect();
        let mut words = Vec::new();
        self.expand(&tokens, &mut words)?;
        for word in &mut words {
            if let Some(letter) = word.strip_suffix(b"@n").map(<[u8]>::to_vec) {
                *word = [letter, self.number()?].concat();
            }
        }
        let mut request = words.join(&b' ');
        request.extend_from_slice(b"\r\n");
        if has_value {
            request.extend_from_slice(&value);
            request.extend_from_slice(b"\r\n");
        }
        Some(request)
    }

    /// Returns random bytes.
    pub fn garbage(&mut self) -> Option<Vec<u8>> {
        let len = self.below(40)? as usize;
        let starts: &[&[u8]] = &[
            b"",
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000\r\n",
            b"set k 0 0 100000\r\n",
            b"*-1\r\n",
            b"$",
            b"*1048577\r\n",
        ];
        let start = starts[self.below(starts.len() as u64)? as usize];
        let bytes: Option<Vec<u8>> = (0..len).map(|_| self.byte()).collect();
        Some([start, &bytes?].concat())
    }
}

/// Returns the position of the bracket that closes the bracket at `at`.
fn closing(template: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (place, token) in template.iter().enumerate().skip(at) {
        match *token {
            "[" | "{" => depth += 1,
            "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place;
        }
    }
    panic!("a template without the end of a bracket: {template:?}")
}
