//! The encodings of values: their elements, one at a time.
//!
//! A [`ValueWalk`] retains a position, one packed string and two short strings, never the whole value.

use std::io::Read;

use crate::event::{Element, ModuleType, ValueType};
use crate::input::Input;
use crate::packed::{Invalid, PackedCursor, Packing, Piece};
use crate::step::{ElementStep, Strings, broken};
use crate::stream::StreamWalk;
use crate::{Damage, malformed};

/// The first version of Valkey's own format. Redis uses lower numbers.
pub(crate) const VALKEY_VERSION_MIN: u32 = 80;

/// The numbers of encodings that are not packed.
pub(crate) mod kind {
    pub(crate) const TEXT: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const SORTED_SET: u8 = 5;
    pub(crate) const STREAM: u8 = 19;
    pub(crate) const EXPIRING_HASH: u8 = 24;
}

/// The layout of the elements in a packed string.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackedShape {
    /// Each element is a member.
    Members,
    /// A member, then its score.
    Scores,
    /// A field's name, then its value.
    Fields,
    /// A field's name, its value, then its expiry or 0.
    ExpiringFields,
}

/// The place of a field's expiry in a hash that is not packed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldForm {
    /// There is none.
    Plain,
    /// A number before the name; 0: none (Redis 7.4 before its release).
    Absolute,
    /// A number before the name, 1 for this time; 0: none (Redis 7.4).
    After(u64),
    /// 8 bytes after the value; below 0: none (Valkey 9).
    Behind,
}

/// The layout of a list's nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeForm {
    /// A ziplist.
    Ziplist,
    /// A number before a listpack or a single member.
    Marked,
}

/// The layout of a type's bytes.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Text,
    Members,
    Scores { is_binary: bool },
    Fields(fn(u64) -> FieldForm),
    Packed(Packing, PackedShape),
    ExpiringListpack { has_earliest: bool },
    Nodes(NodeForm),
    Stream(u32),
    Module,
}

/// Returns the type with number `kind`, and its layout. Redis and Valkey give 22 different meanings.
fn layout(kind: u8, version: u32) -> Option<(ValueType, Layout)> {
    use PackedShape::{Fields, Members, Scores};
    use ValueType::{Hash, List, Module, Set, SortedSet, Stream, String};
    let is_valkey = version >= VALKEY_VERSION_MIN;
    Some(match kind {
        0 => (String, Layout::Text),
        1 => (List, Layout::Members),
        2 => (Set, Layout::Members),
        3 => (SortedSet, Layout::Scores { is_binary: false }),
        4 => (Hash, Layout::Fields(|_| FieldForm::Plain)),
        5 => (SortedSet, Layout::Scores { is_binary: true }),
        7 => (Module, Layout::Module),
        9 => (Hash, Layout::Packed(Packing::Zipmap, Fields)),
        10 => (List, Layout::Packed(Packing::Ziplist, Members)),
        11 => (Set, Layout::Packed(Packing::Intset, Members)),
        12 => (SortedSet, Layout::Packed(Packing::Ziplist, Scores)),
        13 => (Hash, Layout::Packed(Packing::Ziplist, Fields)),
        14 => (List, Layout::Nodes(NodeForm::Ziplist)),
        15 => (Stream, Layout::Stream(1)),
        16 => (Hash, Layout::Packed(Packing::Listpack, Fields)),
        17 => (SortedSet, Layout::Packed(Packing::Listpack, Scores)),
        18 => (List, Layout::Nodes(NodeForm::Marked)),
        19 => (Stream, Layout::Stream(2)),
        20 => (Set, Layout::Packed(Packing::Listpack, Members)),
        21 => (Stream, Layout::Stream(3)),
        22 if is_valkey => (Hash, Layout::Fields(|_| FieldForm::Behind)),
        _ if is_valkey => return None,
        22 => (Hash, Layout::Fields(|_| FieldForm::Absolute)),
        23 => (Hash, Layout::ExpiringListpack { has_earliest: false }),
        24 => (Hash, Layout::Fields(FieldForm::After)),
        25 => (Hash, Layout::ExpiringListpack { has_earliest: true }),
        26 => (Stream, Layout::Stream(4)),
        27 => (Stream, Layout::Stream(5)),
        _ => return None,
    })
}

/// Describes a type that cannot be read.
fn unknown(kind: u8) -> String {
    match kind {
        6 => "the value of a module is in the old format without opcodes, which only the module can parse".to_owned(),
        28 => "arrays of Redis 8.8 are not supported".to_owned(),
        29..=32 => "hashes with templates of Redis 8.10 are not supported".to_owned(),
        33 => "rate limits of Redis 8.8 are not supported".to_owned(),
        _ => format!("unknown value type {kind}"),
    }
}

/// The part of a value that is read next.
#[derive(Debug)]
enum ValuePart {
    Text,
    Members { left: u64 },
    Scores { left: u64, is_binary: bool },
    Fields { left: u64, form: FieldForm },
    Nodes { left: u64, form: NodeForm },
    Stream(StreamWalk),
    Module(ModuleType),
    End,
}

/// A packed string whose elements are being read.
#[derive(Debug)]
struct PackedWalk {
    cursor: PackedCursor,
    shape: PackedShape,
    /// The offset of the string in the input, for errors.
    at: u64,
}

/// A value whose elements are being read.
#[derive(Debug)]
pub(crate) struct ValueWalk {
    part: ValuePart,
    packed: Option<PackedWalk>,
    strings: Strings,
}

impl ValueWalk {
    /// Creates a value without elements.
    pub(crate) fn none() -> Self {
        Self { part: ValuePart::End, packed: None, strings: Strings::default() }
    }

    /// Returns the type with number `kind`. `at` is the offset of that number.
    pub(crate) fn type_of(kind: u8, version: u32, at: u64) -> Result<ValueType, Damage> {
        layout(kind, version).map(|(value_type, _)| value_type).ok_or_else(|| malformed(at, unknown(kind)))
    }

    /// Begins a value of type `kind`, whose first byte is the next one of `input`.
    pub(crate) fn begin<R: Read>(&mut self, input: &mut Input<R>, kind: u8, version: u32) -> Result<(), Damage> {
        let Some((_, layout)) = layout(kind, version) else { return Err(malformed(input.offset(), unknown(kind))) };
        (self.part, self.packed) = (ValuePart::End, None);
        self.part = match layout {
            Layout::Text => ValuePart::Text,
            Layout::Members => ValuePart::Members { left: input.length()? },
            Layout::Scores { is_binary } => ValuePart::Scores { left: input.length()?, is_binary },
            Layout::Fields(form) => {
                let earliest = if matches!(form(0), FieldForm::After(_)) { input.u64_le()? } else { 0 };
                ValuePart::Fields { left: input.length()?, form: form(earliest) }
            }
            Layout::Nodes(form) => ValuePart::Nodes { left: input.length()?, form },
            Layout::Stream(form) => ValuePart::Stream(StreamWalk::begin(input, form)?),
            Layout::Module => ValuePart::Module(ModuleType(input.length()?)),
            Layout::Packed(packing, shape) => {
                self.unpack(input, packing, shape)?;
                ValuePart::End
            }
            Layout::ExpiringListpack { has_earliest } => {
                if has_earliest {
                    input.skip(8)?;
                }
                self.unpack(input, Packing::Listpack, PackedShape::ExpiringFields)?;
                ValuePart::End
            }
        };
        Ok(())
    }

    /// Returns the next element, if there is one.
    pub(crate) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<Element<'_>>, Damage> {
        let step = self.advance(input)?;
        Ok(step.map(|step| self.strings.element(step)))
    }

    /// Reads all elements that are left.
    pub(crate) fn skip<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), Damage> {
        while self.advance(input)?.is_some() {}
        Ok(())
    }

    /// Reads a packed string, and begins with its elements.
    fn unpack<R: Read>(&mut self, input: &mut Input<R>, packing: Packing, shape: PackedShape) -> Result<(), Damage> {
        let at = input.offset();
        input.string(&mut self.strings.packed)?;
        let cursor = PackedCursor::new(packing, &self.strings.packed).map_err(|Invalid| broken(at))?;
        self.packed = Some(PackedWalk { cursor, shape, at });
        Ok(())
    }

    fn advance<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<ElementStep>, Damage> {
        loop {
            if let Some(walk) = &mut self.packed {
                let at = walk.at;
                match packed_step(walk, &mut self.strings).map_err(|Invalid| broken(at))? {
                    Some(step) => return Ok(Some(step)),
                    None => self.packed = None,
                }
            }
            match &mut self.part {
                ValuePart::Nodes { left: 0, .. } | ValuePart::End => return Ok(None),
                ValuePart::Nodes { left, form } => {
                    *left -= 1;
                    let form = *form;
                    if let Some(step) = self.node(input, form)? {
                        return Ok(Some(step));
                    }
                }
                ValuePart::Stream(walk) => return walk.advance(input, &mut self.strings),
                _ => return self.plain_step(input),
            }
        }
    }

    /// Reads a node of a list: a packed string, whose elements follow, or one member.
    fn node<R: Read>(&mut self, input: &mut Input<R>, form: NodeForm) -> Result<Option<ElementStep>, Damage> {
        let at = input.offset();
        let packing = match form {
            NodeForm::Ziplist => Packing::Ziplist,
            NodeForm::Marked => match input.length()? {
                1 => {
                    self.strings.read(input, 0)?;
                    return Ok(Some(ElementStep::Member));
                }
                2 => Packing::Listpack,
                mark => return Err(malformed(at, format!("a node of a list has the unknown form {mark}"))),
            },
        };
        self.unpack(input, packing, PackedShape::Members).map(|()| None)
    }

    /// Reads an element that is not in a packed string.
    fn plain_step<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<ElementStep>, Damage> {
        let strings = &mut self.strings;
        match &mut self.part {
            ValuePart::Text => {
                self.part = ValuePart::End;
                strings.read(input, 0)?;
                Ok(Some(ElementStep::Text))
            }
            ValuePart::Module(module) => {
                let module = *module;
                self.part = ValuePart::End;
                skip_module(input)?;
                Ok(Some(ElementStep::Whole(Element::Module(module))))
            }
            ValuePart::Members { left } | ValuePart::Scores { left, .. } | ValuePart::Fields { left, .. }
                if *left == 0 =>
            {
                Ok(None)
            }
            ValuePart::Members { left } => {
                *left -= 1;
                strings.read(input, 0)?;
                Ok(Some(ElementStep::Member))
            }
            ValuePart::Scores { left, is_binary } => {
                *left -= 1;
                strings.read(input, 0)?;
                score(input, *is_binary).map(|score| Some(ElementStep::Scored(score)))
            }
            ValuePart::Fields { left, form } => {
                *left -= 1;
                field(input, *form, strings).map(|expiry| Some(ElementStep::Field(expiry)))
            }
            ValuePart::Nodes { .. } | ValuePart::Stream(_) | ValuePart::End => Ok(None),
        }
    }
}

/// Reads the next element of a packed string.
fn packed_step(walk: &mut PackedWalk, strings: &mut Strings) -> Result<Option<ElementStep>, Invalid> {
    let cursor = &mut walk.cursor;
    let Some(first) = cursor.next(&strings.packed)? else { return Ok(None) };
    strings.take(first, 0);
    let step = match walk.shape {
        PackedShape::Members => ElementStep::Member,
        PackedShape::Scores => match cursor.piece(&strings.packed)? {
            Piece::Number(score) => ElementStep::Scored(score as f64),
            Piece::Bytes(range) => ElementStep::Scored(text_score(&strings.packed[range]).ok_or(Invalid)?),
        },
        PackedShape::Fields | PackedShape::ExpiringFields => {
            let value = cursor.piece(&strings.packed)?;
            strings.take(value, 1);
            let expiry = match walk.shape {
                PackedShape::ExpiringFields => u64::try_from(cursor.number(&strings.packed)?).map_err(|_| Invalid)?,
                _ => 0,
            };
            ElementStep::Field((expiry != 0).then_some(expiry))
        }
    };
    Ok(Some(step))
}

/// Returns the score that text represents; `None` if it is not a number.
fn text_score(text: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

/// Reads a score: 8 bytes, or a length and text.
fn score<R: Read>(input: &mut Input<R>, is_binary: bool) -> Result<f64, Damage> {
    let at = input.offset();
    let score = match is_binary {
        true => Some(f64::from_bits(input.u64_le()?)).filter(|score| !score.is_nan()),
        false => match input.byte()? {
            253 => None,
            254 => Some(f64::INFINITY),
            255 => Some(f64::NEG_INFINITY),
            len => {
                let mut text = [0; 252];
                let text = &mut text[..len.into()];
                input.fill(text)?;
                text_score(text)
            }
        },
    };
    score.ok_or_else(|| malformed(at, "a score is not a number"))
}

/// Reads a field with its value. Returns its expiry.
fn field<R: Read>(input: &mut Input<R>, form: FieldForm, strings: &mut Strings) -> Result<Option<u64>, Damage> {
    let at = input.offset();
    let before = match form {
        FieldForm::Absolute | FieldForm::After(_) => input.length()?,
        FieldForm::Plain | FieldForm::Behind => 0,
    };
    strings.read(input, 0)?;
    strings.read(input, 1)?;
    match form {
        FieldForm::Plain => Ok(None),
        FieldForm::Absolute => Ok((before != 0).then_some(before)),
        FieldForm::After(_) if before == 0 => Ok(None),
        FieldForm::After(earliest) => {
            let expiry = earliest.checked_add(before - 1);
            expiry.map(Some).ok_or_else(|| malformed(at, "the expiry of a field is out of range"))
        }
        FieldForm::Behind => Ok(u64::try_from(input.u64_le()?.cast_signed()).ok()),
    }
}

/// Skips a module's data up to its end mark.
pub(crate) fn skip_module<R: Read>(input: &mut Input<R>) -> Result<(), Damage> {
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
