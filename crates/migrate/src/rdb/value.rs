//! Reads values by type: strings and hashes are read, all others are skipped.

use std::io::Read;

use super::input::Input;
use super::{Content, Damage, malformed, packed};

/// The layout of a type's bytes.
#[derive(Clone, Copy)]
enum Layout {
    /// One string.
    String,
    /// A number of elements, then this many strings per element.
    Strings(u32),
    /// A sorted set with scores as text (`false`) or as 8 bytes (`true`).
    Scored(bool),
    /// A number of nodes, then a number and a string per node.
    Nodes,
    /// A stream, in its first, second or third form.
    Stream(u32),
    /// A module's value in which an opcode precedes each element, so that the value can be skipped.
    Module,
    /// A hash of strings.
    Hash,
    /// A hash whose fields may expire; true if the earliest expiry comes first.
    HashExpiring(bool),
    /// A hash in one string.
    HashPacked(fn(&[u8]) -> Option<Vec<Vec<u8>>>),
    /// A hash in one listpack with expiries; true if the earliest expiry comes first.
    HashPackedExpiring(bool),
}

/// Returns the name of type `kind` as in `TYPE`, and its layout.
fn layout(kind: u8) -> Option<(&'static str, Layout)> {
    use Layout::{Hash, HashExpiring, HashPacked, HashPackedExpiring, Module, Nodes, Scored, Stream, String, Strings};
    Some(match kind {
        0 => ("string", String),
        1 => ("list", Strings(1)),
        2 => ("set", Strings(1)),
        3 => ("zset", Scored(false)),
        4 => ("hash", Hash),
        5 => ("zset", Scored(true)),
        7 => ("module", Module),
        9 => ("hash", HashPacked(packed::zipmap)),
        10 => ("list", String),
        11 => ("set", String),
        12 => ("zset", String),
        13 => ("hash", HashPacked(packed::ziplist)),
        14 => ("list", Strings(1)),
        15 => ("stream", Stream(1)),
        16 => ("hash", HashPacked(packed::listpack)),
        17 => ("zset", String),
        18 => ("list", Nodes),
        19 => ("stream", Stream(2)),
        20 => ("set", String),
        21 => ("stream", Stream(3)),
        22 => ("hash", HashExpiring(false)),
        23 => ("hash", HashPackedExpiring(false)),
        24 => ("hash", HashExpiring(true)),
        25 => ("hash", HashPackedExpiring(true)),
        _ => return None,
    })
}

/// Reads the value of type `kind`, or skips it if it is not wanted. `at` is the offset of its entry.
pub(super) fn read<R: Read>(input: &mut Input<R>, kind: u8, wanted: bool, at: u64) -> Result<Content, Damage> {
    let Some((name, layout)) = layout(kind) else {
        let what = match kind {
            6 => {
                "the value of a module is in the old format without opcodes, which only the module can parse".to_owned()
            }
            _ => format!("unknown value type {kind}"),
        };
        return Err(malformed(at, what));
    };
    let begins = input.offset();
    let broken = || malformed(begins, "cannot unpack a hash in packed form");
    match layout {
        Layout::String if name == "string" && wanted => return input.string().map(Content::Bytes),
        Layout::Hash | Layout::HashExpiring(_) => return hash(input, layout, wanted),
        Layout::HashPacked(unpack) if wanted => {
            let elements = unpack(&input.string()?).ok_or_else(broken)?;
            return pairs(elements, 2).map(|fields| Content::Hash(fields, 0)).ok_or_else(broken);
        }
        Layout::HashPackedExpiring(earliest) => {
            if earliest {
                input.skip(8)?;
            }
            if wanted {
                let elements = packed::listpack(&input.string()?).ok_or_else(broken)?;
                let expiring = elements.iter().skip(2).step_by(3).filter(|expiry| **expiry != b"0").count();
                return pairs(elements, 3).map(|fields| Content::Hash(fields, expiring as u64)).ok_or_else(broken);
            }
            input.skip_string()?;
        }
        Layout::String | Layout::HashPacked(_) => input.skip_string()?,
        Layout::Strings(each) => {
            for _ in 0..input.length()? {
                (0..each).try_for_each(|_| input.skip_string())?;
            }
        }
        Layout::Scored(binary) => skip_scored(input, binary)?,
        Layout::Nodes => {
            for _ in 0..input.length()? {
                input.length()?;
                input.skip_string()?;
            }
        }
        Layout::Stream(form) => skip_stream(input, form)?,
        Layout::Module => {
            input.length()?;
            skip_module(input)?;
        }
    }
    Ok(Content::Passed(name))
}

/// Returns the first two of every `each` elements.
fn pairs(elements: Vec<Vec<u8>>, each: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    if elements.is_empty() || !elements.len().is_multiple_of(each) {
        return None;
    }
    let mut fields = Vec::with_capacity(elements.len() / each);
    let mut elements = elements.into_iter();
    while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
        fields.push((field, value));
        if each == 3 {
            elements.next();
        }
    }
    Some(fields)
}

/// Reads a hash of strings; each field may have an expiry before it.
fn hash<R: Read>(input: &mut Input<R>, layout: Layout, wanted: bool) -> Result<Content, Damage> {
    if matches!(layout, Layout::HashExpiring(true)) {
        input.skip(8)?;
    }
    let (mut fields, mut expiring) = (Vec::new(), 0);
    for _ in 0..input.length()? {
        if matches!(layout, Layout::HashExpiring(_)) {
            expiring += u64::from(input.length()? != 0);
        }
        if wanted {
            fields.push((input.string()?, input.string()?));
        } else {
            input.skip_string()?;
            input.skip_string()?;
        }
    }
    Ok(if wanted { Content::Hash(fields, expiring) } else { Content::Passed("hash") })
}

fn skip_scored<R: Read>(input: &mut Input<R>, binary: bool) -> Result<(), Damage> {
    for _ in 0..input.length()? {
        input.skip_string()?;
        let len = if binary { 8 } else { input.byte()?.into() };
        // In text form, the lengths 253 to 255 represent the scores NaN and plus and minus infinity.
        if binary || len < 253 {
            input.skip(len)?;
        }
    }
    Ok(())
}

fn skip_stream<R: Read>(input: &mut Input<R>, form: u32) -> Result<(), Damage> {
    let numbers = |input: &mut Input<R>, count: u32| (0..count).try_for_each(|_| input.length().map(drop));
    for _ in 0..input.length()? {
        input.skip_string()?;
        input.skip_string()?;
    }
    // Skips the number of entries and the last id; then the first id, the largest deleted id, and the number of entries
    // ever added.
    numbers(input, if form >= 2 { 8 } else { 3 })?;
    for _ in 0..input.length()? {
        input.skip_string()?;
        numbers(input, if form >= 2 { 3 } else { 2 })?;
        for _ in 0..input.length()? {
            // Skips an id with its delivery time, then the number of deliveries.
            input.skip(24)?;
            input.length()?;
        }
        for _ in 0..input.length()? {
            input.skip_string()?;
            input.skip(if form >= 3 { 16 } else { 8 })?;
            for _ in 0..input.length()? {
                input.skip(16)?;
            }
        }
    }
    Ok(())
}

/// Skips a module's data up to its end mark.
pub(super) fn skip_module<R: Read>(input: &mut Input<R>) -> Result<(), Damage> {
    loop {
        let at = input.offset();
        match input.length()? {
            0 => return Ok(()),
            1 | 2 => input.length().map(drop)?,
            3 => input.skip(4)?,
            4 => input.skip(8)?,
            5 => input.skip_string()?,
            mark => return Err(malformed(at, format!("a module's value has the unknown opcode {mark}"))),
        }
    }
}
