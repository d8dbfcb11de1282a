//! Raw commands: a text in which `__key__`, `__length__` and `__data__` are replaced.

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(Box<[u8]>),
    Key,
    Length,
    Data,
}

const PLACES: [(&str, TemplatePart); 3] =
    [("__key__", TemplatePart::Key), ("__length__", TemplatePart::Length), ("__data__", TemplatePart::Data)];

impl Template {
    /// Parses `text`.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((at, (name, part))) =
            PLACES.iter().filter_map(|place| Some((rest.find(place.0)?, place))).min_by_key(|(at, _)| *at)
        {
            if at > 0 {
                parts.push(TemplatePart::Text(rest.as_bytes()[..at].into()));
            }
            parts.push(part.clone());
            rest = &rest[at + name.len()..];
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.as_bytes().into()));
        }
        Self { parts }
    }

    /// Appends the text. `key` and a value of `len` bytes, written by `data`, replace the placeholders.
    pub fn put(&self, key: &[u8], len: u64, mut data: impl FnMut(&mut Vec<u8>), out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text),
                TemplatePart::Key => out.extend_from_slice(key),
                TemplatePart::Length => protocol::number::put_u64(out, len),
                TemplatePart::Data => data(out),
            }
        }
    }

    /// Returns whether the template has a placeholder for a value.
    pub fn has_data(&self) -> bool {
        self.parts.contains(&TemplatePart::Data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_replaced_and_all_else_stays() {
        let put = |text: &str| {
            let mut out = Vec::new();
            Template::new(text).put(b"k1", 3, |out| out.extend_from_slice(b"abc"), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(put("set __key__ 0 0 __length__\r\n__data__"), "set k1 0 0 3\r\nabc");
        assert_eq!(put("__data____key__ _key_"), "abck1 _key_");
        assert_eq!(put(""), "");
        assert!(Template::new("x __data__").has_data() && !Template::new("data").has_data());
    }
}
