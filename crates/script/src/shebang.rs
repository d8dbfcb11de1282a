//! The first line of a script, which may declare its engine and flags: `#!lua flags=no-writes,allow-oom`.

/// Properties that a script declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// The script never writes.
    pub no_writes: bool,
    /// The script may run even if memory is used up.
    pub allow_oom: bool,
}

/// The result of reading a script's first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The declared flags. `None` if the script has no such line; memory is then checked command by command.
    pub flags: Option<ScriptFlags>,
    /// The number of bytes to leave out at the start of the text, so that line numbers stay the same.
    pub skipped: usize,
}

/// The reason why a first line is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The line has no end.
    Endless,
    /// The engine is not Lua.
    Engine(Vec<u8>),
    /// A flag that does not exist.
    Flag(Vec<u8>),
    /// An option that does not exist.
    Option(Vec<u8>),
}

impl HeaderError {
    /// Returns the error reply, without `-` and line end.
    pub fn message(&self) -> Vec<u8> {
        let (text, word): (&str, &[u8]) = match self {
            Self::Endless => ("ERR Invalid script shebang", b""),
            Self::Engine(word) => ("ERR Unexpected engine in script shebang: ", word),
            Self::Flag(word) => ("ERR Unexpected flag in script shebang: ", word),
            Self::Option(word) => ("ERR Unknown lua shebang option: ", word),
        };
        [text.as_bytes(), word].concat()
    }
}

/// The names of all flags. Those after the first two have no effect, because there are no replicas and no clusters.
const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Returns the flag with this name, if there is one. Records the flags that have an effect.
pub(crate) fn read_flag(flags: &mut ScriptFlags, name: &[u8]) -> Option<&'static str> {
    let found = FLAGS.into_iter().find(|flag| flag.as_bytes() == name)?;
    flags.no_writes |= found == FLAGS[0];
    flags.allow_oom |= found == FLAGS[1];
    Some(found)
}

/// The reason why the first line of a library is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryError {
    /// There is no such line.
    Missing,
    /// The line has no end.
    Endless,
    /// The engine is not Lua.
    Engine(Vec<u8>),
    /// An option that does not exist.
    Option(Vec<u8>),
    /// The library has several names.
    Names,
    /// The library has no name.
    NoName,
    /// The name has other characters than letters, digits and underscores, or none.
    Name,
}

impl LibraryError {
    /// Returns the error reply, without `-` and line end.
    pub fn message(&self) -> Vec<u8> {
        let (before, word, after): (&str, &[u8], &str) = match self {
            Self::Missing => ("ERR Missing library metadata", b"", ""),
            Self::Endless => ("ERR Invalid library metadata", b"", ""),
            Self::Engine(word) => ("ERR Engine '", word, "' not found"),
            Self::Option(word) => ("ERR Invalid metadata value given: ", word, ""),
            Self::Names => ("ERR Invalid metadata value, name argument was given multiple times", b"", ""),
            Self::NoName => ("ERR Library name was not given", b"", ""),
            Self::Name => (NAME_RULE, b"", ""),
        };
        [before.as_bytes(), word, after.as_bytes()].concat()
    }
}

/// The error about an invalid name of a library or a function.
pub(crate) const NAME_RULE: &str =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Returns true if a library or a function may have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Reads the first line of a library, such as `#!lua name=books`. Returns the name and the header.
///
/// # Errors
/// If the line is missing or invalid.
pub fn read_library(text: &[u8]) -> Result<(Vec<u8>, Header), LibraryError> {
    let after = text.strip_prefix(b"#!").ok_or(LibraryError::Missing)?;
    let end = after.iter().position(|byte| *byte == b'\n').ok_or(LibraryError::Endless)?;
    let mut words = after[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let (engine, mut name) = (words.next().unwrap_or_default(), None);
    for word in words {
        let value = word.strip_prefix(b"name=").ok_or_else(|| LibraryError::Option(word.to_vec()))?;
        if name.replace(value.to_vec()).is_some() {
            return Err(LibraryError::Names);
        }
    }
    let name = name.ok_or(LibraryError::NoName)?;
    if !is_name(&name) {
        return Err(LibraryError::Name);
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(LibraryError::Engine(engine.to_vec()));
    }
    Ok((name, Header { flags: None, skipped: end + 2 }))
}

impl Header {
    /// Reads the first line of a script.
    ///
    /// # Errors
    /// If the line begins with `#!` and is invalid.
    pub fn read(text: &[u8]) -> Result<Self, HeaderError> {
        if !text.starts_with(b"#!") {
            return Ok(Self::default());
        }
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(HeaderError::Endless)?;
        let mut words = text[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let engine = words.next().unwrap_or_default();
        if engine != b"#!lua" {
            return Err(HeaderError::Engine(engine.to_vec()));
        }
        let mut flags = ScriptFlags::default();
        for word in words {
            let names = word.strip_prefix(b"flags=").ok_or_else(|| HeaderError::Option(word.to_vec()))?;
            for name in names.split(|byte| *byte == b',').filter(|name| !name.is_empty()) {
                if read_flag(&mut flags, name).is_none() {
                    return Err(HeaderError::Flag(name.to_vec()));
                }
            }
        }
        Ok(Self { flags: Some(flags), skipped: end })
    }
}
