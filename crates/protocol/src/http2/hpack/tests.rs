//! Tests of HPACK: the examples of RFC 7541, a model of the table, and hostile blocks.

use base::prng::Prng;

use super::decoder::{HpackDecoder, HpackError};
use super::field_list::FieldList;
use super::name::FieldName;
use super::table::TABLE_BYTES_MAX;
use super::{encode, huffman, integer, static_table};

type Fields = Vec<(String, String)>;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn list() -> FieldList {
    FieldList::new(16 * 1024)
}

fn owned<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.map(|(name, value)| (text(name), text(value))).collect()
}

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Fields, HpackError> {
    let mut list = list();
    decoder.decode(block, &mut list)?;
    Ok(owned(list.iter()))
}

fn pairs(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn integers_are_those_of_appendix_c_1() {
    for (bytes, number) in [("0a", 10), ("1f9a0a", 1337), ("1f00", 31), ("1e", 30), ("1f8001", 159)] {
        let bytes = hex(bytes);
        assert_eq!(integer::decode(&bytes, 5), Some((number, bytes.len())));
        let mut encoded = Vec::new();
        integer::encode(&mut encoded, 0, 5, number);
        assert_eq!(encoded, bytes);
    }
    for number in (0..100_000).chain((1 << 27)..(1 << 27) + 1000) {
        let mut encoded = Vec::new();
        integer::encode(&mut encoded, 0x80, 7, number);
        assert_eq!(integer::decode(&encoded, 7), Some((number, encoded.len())));
    }
}

#[test]
fn integer_that_is_cut_off_or_overflows_is_an_error() {
    for bytes in ["", "1f", "1fff", "1fffffffff", "1fffffffff7f", "1f808080808001", "1fffffffffffffffff7f"] {
        // Four bytes after the first are the most.
        let expected = if bytes == "1fffffffff7f" { None } else { integer::decode(&hex(bytes), 5) };
        assert_eq!(expected, None, "{bytes}");
    }
    assert_eq!(integer::decode(&hex("1fffffff7f"), 5), Some(((1 << 28) - 1 + 31, 5)));
}

#[test]
fn literals_are_those_of_appendix_c_2() {
    for (block, field, indexed) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ("custom-key", "custom-header"), 55),
        ("040c 2f73 616d 706c 652f 7061 7468", (":path", "/sample/path"), 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", ("password", "secret"), 0),
        ("82", (":method", "GET"), 0),
    ] {
        let mut decoder = HpackDecoder::new();
        assert_eq!(decoded(&mut decoder, &hex(block)), Ok(pairs(&[field])));
        assert_eq!(decoder.table_size_bytes(), indexed);
    }
}

#[test]
fn requests_are_those_of_appendix_c_3_and_c_4() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let authority = (":authority", "www.example.com");
    let first = [(":method", "GET"), (":scheme", "http"), (":path", "/"), authority];
    let second = [&first[..], &[("cache-control", "no-cache")]].concat();
    let custom = ("custom-key", "custom-value");
    let third = [(":method", "GET"), (":scheme", "https"), (":path", "/index.html"), authority, custom];
    for blocks in [plain, huffman] {
        let mut decoder = HpackDecoder::new();
        for (block, fields, size) in [(blocks[0], &first[..], 57), (blocks[1], &second, 110), (blocks[2], &third, 164)]
        {
            assert_eq!(decoded(&mut decoder, &hex(block)), Ok(pairs(fields)));
            assert_eq!(decoder.table_size_bytes(), size);
        }
        assert_eq!(decoder.table_fields(), pairs(&[custom, ("cache-control", "no-cache"), authority]));
    }
}

#[test]
fn responses_with_evictions_are_those_of_appendix_c_5_and_c_6() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
         2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
         8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let (cache, location) = (("cache-control", "private"), ("location", "https://www.example.com"));
    let (date, later) = (("date", "Mon, 21 Oct 2013 20:13:21 GMT"), ("date", "Mon, 21 Oct 2013 20:13:22 GMT"));
    let (gzip, cookie) =
        (("content-encoding", "gzip"), ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"));
    for blocks in [plain, huffman] {
        let mut decoder = HpackDecoder::new();
        assert_eq!(decoded(&mut decoder, &hex("3fe101")), Ok(vec![]), "the size of the table is 256");
        let first = pairs(&[(":status", "302"), cache, date, location]);
        assert_eq!(decoded(&mut decoder, &hex(blocks[0])), Ok(first));
        assert_eq!(decoder.table_size_bytes(), 222);
        assert_eq!(decoded(&mut decoder, &hex(blocks[1])), Ok(pairs(&[(":status", "307"), cache, date, location])));
        assert_eq!(decoder.table_size_bytes(), 222);
        let third = pairs(&[(":status", "200"), cache, later, location, gzip, cookie]);
        assert_eq!(decoded(&mut decoder, &hex(blocks[2])), Ok(third));
        assert_eq!((decoder.table_size_bytes(), decoder.table_fields()), (215, pairs(&[cookie, gzip, later])));
    }
}

#[test]
fn any_string_is_read_back_from_its_huffman_code() {
    let mut prng = Prng::new(7);
    let all: Vec<u8> = (0..=255).collect();
    let mut texts = vec![Vec::new(), all];
    for symbol in 0..=255u8 {
        texts.extend((1..5).map(|count| vec![symbol; count]));
    }
    for _ in 0..2000 {
        let mut text = vec![0; prng.below(40) as usize];
        prng.fill(&mut text);
        if prng.chance(1, 2) {
            text.iter_mut().for_each(|byte| *byte = b' ' + *byte % 95);
        }
        texts.push(text);
    }
    for text in texts {
        let code = huffman::encode(&text);
        assert_eq!(code.len(), huffman::encoded_len(&text));
        let mut out = b"before".to_vec();
        assert_eq!(huffman::decode(&code, &mut out), Ok(()), "{text:?}");
        assert_eq!(&out[6..], text);
        assert!(text.len() <= code.len() * 8 / 5);
        // A cut code is an error, or a shorter string.
        for end in 0..code.len() {
            let mut cut = Vec::new();
            if huffman::decode(&code[..end], &mut cut).is_ok() {
                assert!(text.starts_with(&cut) && cut.len() < text.len());
            }
        }
    }
}

#[test]
fn huffman_padding_must_be_short_and_ones() {
    let decode = |code: &str| huffman::decode(&hex(code), &mut Vec::new()).is_ok();
    // `0` is 00000.
    assert!(decode("07") && decode(""));
    for (code, hazard) in [
        ("06", "a zero in the padding"),
        ("00", "padding of zeros only"),
        ("ff", "8 bits of padding"),
        ("07ff", "11 bits of padding"),
        ("ffffffff", "the end symbol"),
        ("ffffffffffffffff", "two end symbols"),
        ("07ffffffff", "the end symbol after another"),
        ("fffffffc", "the end symbol and padding of zeros"),
    ] {
        assert!(!decode(code), "{hazard}");
    }
}

#[test]
fn static_table_has_its_ends_and_known_names() {
    assert_eq!((static_table::FIELDS[0].text, static_table::FIELDS[60].text), (":authority", "www-authenticate"));
    for field in &static_table::FIELDS {
        assert_eq!(FieldName::of(field.text.as_bytes()), field.name, "{}", field.text);
    }
}

#[test]
fn malformed_block_is_a_compression_error() {
    for (block, error, hazard) in [
        ("80", HpackError::Index, "index 0"),
        ("be", HpackError::Index, "an index beyond an empty table"),
        ("ffff7f", HpackError::Index, "a large index"),
        ("7f80808001", HpackError::Index, "a large index of a name"),
        ("ff", HpackError::Integer, "an integer that is cut off"),
        ("ffffffffffff", HpackError::Integer, "an integer of too many bytes"),
        ("00", HpackError::Integer, "no name"),
        ("000161", HpackError::Integer, "no value"),
        ("0005", HpackError::String, "a name that is cut off"),
        ("0001610562", HpackError::String, "a value that is cut off"),
        ("000161ff80808001", HpackError::String, "a value longer than its block"),
        ("00016181ff", HpackError::String, "a value with too much padding"),
        ("8220", HpackError::TableSize, "a size update after a field"),
        ("3fe21f", HpackError::TableSize, "a size above the maximum"),
    ] {
        assert_eq!(decoded(&mut HpackDecoder::new(), &hex(block)), Err(error), "{hazard}");
    }
    assert_eq!(
        decoded(&mut HpackDecoder::new(), &hex("203fe11f82")),
        Ok(pairs(&[(":method", "GET")])),
        "two size updates"
    );
}

/// A peer's encoder that uses the table at random, and the model of the table.
struct Model {
    table: Vec<(Vec<u8>, Vec<u8>)>,
    max: usize,
}

impl Model {
    fn size(&self) -> usize {
        self.table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    fn evict(&mut self) {
        while self.size() > self.max {
            self.table.pop();
        }
    }

    fn string(prng: &mut Prng, text: &[u8], out: &mut Vec<u8>) {
        if prng.chance(1, 2) {
            return encode::string(out, text);
        }
        let code = huffman::encode(text);
        integer::encode(out, 0x80, 7, code.len());
        out.extend_from_slice(&code);
    }

    /// Appends one field at random, and returns it.
    fn field(&mut self, prng: &mut Prng, out: &mut Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let known = |index: usize| {
            let field = &static_table::FIELDS[index];
            (field.text.as_bytes().to_vec(), field.value.as_bytes().to_vec())
        };
        let indexes = static_table::LEN + self.table.len();
        let index = prng.below(indexes as u64) as usize;
        let indexed =
            if index < static_table::LEN { known(index) } else { self.table[index - static_table::LEN].clone() };
        if prng.chance(1, 3) {
            integer::encode(out, 0x80, 7, index + 1);
            return indexed;
        }
        let insert = prng.chance(2, 3);
        let (flags, bits) = if insert { (0x40, 6) } else { (0x10 * prng.below(2) as u8, 4) };
        let mut name = format!("name-{}", prng.below(30)).into_bytes();
        if prng.chance(1, 40) {
            name = vec![b'n'; prng.below(5000) as usize + 1];
        }
        if prng.chance(1, 2) {
            integer::encode(out, flags, bits, index + 1);
            name = indexed.0;
        } else {
            integer::encode(out, flags, bits, 0);
            Self::string(prng, &name, out);
        }
        let most = if prng.chance(1, 20) { 5000 } else { 60 };
        let mut value = vec![0; prng.below(most) as usize];
        value.iter_mut().for_each(|byte| *byte = b'!' + prng.below(90) as u8);
        Self::string(prng, &value, out);
        if insert {
            self.table.insert(0, (name.clone(), value.clone()));
            self.evict();
        }
        (name, value)
    }
}

#[test]
fn decoder_follows_any_encoder() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol decoder_follows_any_encoder");
    let mut prng = Prng::new(seed);
    let (mut too_long, mut emptied) = (0, 0);
    for _ in 0..20 {
        let (mut decoder, mut list) = (HpackDecoder::new(), FieldList::new(5000));
        let mut model = Model { table: Vec::new(), max: TABLE_BYTES_MAX };
        for _ in 0..200 {
            let mut block = Vec::new();
            if prng.chance(1, 20) {
                model.max = prng.below(TABLE_BYTES_MAX as u64 + 1) as usize;
                integer::encode(&mut block, 0x20, 5, model.max);
                model.evict();
            }
            let fields: Vec<_> = (0..prng.below(12)).map(|_| model.field(&mut prng, &mut block)).collect();
            decoder.decode(&block, &mut list).unwrap();
            let whole: Fields = owned(fields.iter().map(|(name, value)| (&name[..], &value[..])));
            if list.is_too_long() {
                too_long += 1;
            } else {
                assert_eq!(owned(list.iter()), whole);
            }
            let table = owned(model.table.iter().map(|(name, value)| (&name[..], &value[..])));
            assert_eq!((decoder.table_fields(), decoder.table_size_bytes()), (table, model.size()));
            assert!(decoder.heap_bytes() <= 5 * TABLE_BYTES_MAX);
            emptied += u32::from(model.table.is_empty());
            if prng.chance(1, 10) {
                decoder.shrink();
                assert!(decoder.heap_bytes() <= TABLE_BYTES_MAX + TABLE_BYTES_MAX / 32 * 12);
            }
        }
    }
    assert!(too_long > 20 && emptied > 20, "{too_long} and {emptied} are too few to prove anything");
}

#[test]
fn equal_blocks_of_other_tables_have_their_own_fields() {
    let mut prng = Prng::new(5);
    let mut list = list();
    let mut decoders: Vec<(HpackDecoder, Fields)> = (0..3).map(|_| (HpackDecoder::new(), Fields::new())).collect();
    // The two newest fields of whichever table.
    let block = hex("bebf");
    for number in 0..2_000 {
        let (decoder, table) = &mut decoders[prng.below(3) as usize];
        if table.len() < 2 || prng.chance(1, 3) {
            let (name, value) = (format!("name{}", prng.below(4)), format!("value {number}"));
            let mut literal = vec![0x40, name.len() as u8];
            literal.extend_from_slice(name.as_bytes());
            literal.push(value.len() as u8);
            literal.extend_from_slice(value.as_bytes());
            decoder.decode(&literal, &mut list).unwrap();
            table.insert(0, (name, value));
            assert_eq!(owned(list.iter()), table[..1]);
        }
        if table.len() >= 2 {
            for _ in 0..=prng.below(2) {
                decoder.decode(&block, &mut list).unwrap();
                assert_eq!(owned(list.iter()), table[..2]);
            }
        }
        table.truncate(2);
    }
    list.clear();
    assert_eq!(list.iter().count(), 0);
    let (decoder, table) = &mut decoders[0];
    decoder.decode(&block, &mut list).unwrap();
    assert_eq!(owned(list.iter()), *table, "a cleared list is filled again");
}

#[test]
fn list_beyond_its_maximum_is_decoded_for_the_table_only() {
    let mut decoder = HpackDecoder::new();
    let mut list = FieldList::new(200);
    let mut block = Vec::new();
    encode::literal(&mut block, b"long", &[b'x'; 300]);
    block.extend_from_slice(&hex("400161016240016301648286"));
    decoder.decode(&block, &mut list).unwrap();
    assert!(list.is_too_long() && list.value(FieldName::Method).is_none());
    assert_eq!(decoder.table_fields(), pairs(&[("c", "d"), ("a", "b")]));
    decoder.decode(&hex("bebf"), &mut list).unwrap();
    assert!(!list.is_too_long());
    assert_eq!(owned(list.iter()), pairs(&[("c", "d"), ("a", "b")]));
}

#[test]
fn bomb_of_a_long_field_repeated_by_index_is_bounded() {
    let mut decoder = HpackDecoder::new();
    let mut list = list();
    let mut block = vec![0x40, 1, b'a'];
    encode::string(&mut block, &[b'x'; 4000]);
    decoder.decode(&block, &mut list).unwrap();
    assert_eq!(decoder.decode(&[0xbe; 30_000], &mut list), Err(HpackError::Bomb));
    // 16 KiB of list, and at most one field beyond.
    assert!(list.bytes.capacity() <= 64 * 1024, "{} bytes", list.bytes.capacity());

    let mut decoder = HpackDecoder::new();
    let mut block = vec![0x40];
    encode::string(&mut block, &[b'n'; 4000]);
    block.push(0);
    decoder.decode(&block, &mut list).unwrap();
    let names = [0x7e, 0x00].repeat(15_000);
    assert_eq!(
        decoder.decode(&names, &mut list),
        Err(HpackError::Bomb),
        "a long name that is inserted again and again"
    );
}

fn request(fields: &[(&str, &str)]) -> bool {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| encode::literal(&mut block, name.as_bytes(), value.as_bytes()));
    let mut list = list();
    HpackDecoder::new().decode(&block, &mut list).unwrap();
    list.is_request()
}

#[test]
fn request_with_wrong_pseudo_headers_or_forbidden_fields_is_malformed() {
    let base = [(":method", "POST"), (":scheme", "http"), (":path", "/a/b")];
    let with = |more: &[(&str, &str)]| request(&[&base[..], more].concat());
    assert!(with(&[]) && with(&[(":authority", "cache:1"), ("te", "trailers"), ("x", "")]));
    assert!(with(&[("content-length", "12"), ("content-length", "12"), ("x", "1"), ("x", "1")]));
    assert!(request(&[(":method", "CONNECT"), (":authority", "a:1")]));
    for more in [
        [("x", "1"), (":authority", "a")],
        [(":authority", "a"), (":authority", "a")],
        [("x", "1"), (":path", "/c")],
        [(":status", "200"), ("x", "1")],
        [(":protocol", "websocket"), ("x", "1")],
        [("X", "1"), ("x", "1")],
        [("connection", "close"), ("x", "1")],
        [("transfer-encoding", "chunked"), ("x", "1")],
        [("te", "gzip"), ("x", "1")],
        [("", "1"), ("x", "1")],
        [("x", "a\r\nb"), ("x", "1")],
        [("x", " a"), ("x", "1")],
        [("content-length", "1"), ("content-length", "2")],
        [("content-length", "+1"), ("x", "1")],
        [("content-length", ""), ("x", "1")],
        [("content-length", "99999999999999999999"), ("x", "1")],
    ] {
        assert!(!with(&more), "{more:?}");
    }
    for lacking in 0..3 {
        let mut fields = base.to_vec();
        fields.remove(lacking);
        assert!(!request(&fields), "without {}", base[lacking].0);
    }
    assert!(!request(&[(":method", "POST"), (":scheme", "http"), (":path", "")]), "an empty path");
    assert!(!request(&[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")]));
    assert!(!request(&[]));
}
