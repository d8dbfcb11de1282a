//! The table of memcached's extended options (`-o`).

use base::nearest::nearest;

/// The values that an option accepts.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// No value.
    Nothing,
    /// Any value, or none.
    Anything,
    /// A whole number in the range from the first to the second.
    Whole(i64, i64),
    /// A number above 0 that is at most this value.
    Part(f64),
    /// A whole number without other characters.
    Digits,
    /// A number without other characters.
    Decimal,
    /// Any value.
    Something,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// The effect of an option.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// The option concerns a mechanism that does not exist here. Its value is checked, and a warning reports that it
    /// has no effect.
    Ignored(Takes),
    /// The option adjusts a mechanism that works differently here: the text says how, and a warning repeats it. The
    /// value is checked.
    Different(Takes, &'static str),
    /// The option requests the default behaviour.
    AsIs(&'static str),
    /// A file or device for items that do not fit in memory, with its size.
    ExtPath,
    /// Seconds without a request after which a connection is closed.
    IdleTimeout,
    /// A setting of TLS.
    Tls(TlsOption),
    /// This build does not support the option.
    Refused(&'static str),
}

/// The settings of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsOption {
    /// The file of the certificate and its chain.
    Chain,
    /// The file of the key.
    Key,
    /// The format of the key.
    KeyFormat,
    /// The need of clients for a certificate, as a number.
    VerifyMode,
    /// The allowed ciphers, with colons between them.
    Ciphers,
    /// The file of the CAs of clients.
    CaCert,
    /// The lowest version, as a number.
    MinVersion,
}

impl TlsOption {
    const fn what(self) -> &'static str {
        match self {
            Self::Chain => "PEM file of the certificate and the chain to its CA; required by -Z.",
            Self::Key => "PEM file of the certificate's key; by default the file of the certificate contains it.",
            Self::KeyFormat => "Format of the key: only PEM, the default.",
            Self::VerifyMode => "Certificates of clients: 0 none (default), 1 optional, 2 or 3 required.",
            Self::Ciphers => "Names of cipher suites with colons between them; default: all that are secure.",
            Self::CaCert => "PEM file of the CAs of clients.",
            Self::MinVersion => "Lowest version: 2 for TLS 1.2 (default) or 3 for TLS 1.3; 0 and 1 mean 2.",
        }
    }
}

/// An extended option of memcached.
#[derive(Debug)]
pub struct Suboption {
    /// The option's name.
    pub name: &'static str,
    /// The option's effect.
    pub use_: Use,
}

const fn option(name: &'static str, use_: Use) -> Suboption {
    Suboption { name, use_ }
}

/// Returns the use of an option that adjusts memcached's external storage by a whole number.
const fn different(how: &'static str) -> Use {
    Use::Different(Takes::Digits, how)
}

const COUNT: Takes = Takes::Whole(0, u32::MAX as i64);
const fn tls(option: TlsOption) -> Use {
    Use::Tls(option)
}

const PROXY: Use = Use::Refused("a proxy");

/// All options. The bounds of their values are the same as memcached's.
pub static SUBOPTIONS: [Suboption; 71] = [
    option("maxconns_fast", Use::AsIs("A connection above the limit is always closed at once.")),
    option("no_maxconns_fast", Use::Ignored(Takes::Nothing)),
    option("idle_timeout", Use::IdleTimeout),
    option("modern", Use::AsIs("No effect, as in memcached.")),
    option("no_modern", Use::Ignored(Takes::Nothing)),
    option("hashpower", Use::Ignored(Takes::Whole(12, 32))),
    option("no_hashexpand", Use::Ignored(Takes::Nothing)),
    option("hash_algorithm", Use::Ignored(Takes::Word(&["jenkins", "murmur3", "xxh3"]))),
    option("tail_repair_time", Use::Ignored(Takes::Whole(10, i32::MAX as i64))),
    option("slab_reassign", Use::Ignored(Takes::Nothing)),
    option("no_slab_reassign", Use::Ignored(Takes::Nothing)),
    option("slab_automove", Use::Ignored(Takes::Anything)),
    option("no_slab_automove", Use::Ignored(Takes::Nothing)),
    option("slab_automove_ratio", Use::Ignored(Takes::Part(1.0))),
    option("slab_automove_window", Use::Ignored(Takes::Whole(3, i32::MAX as i64))),
    option("slab_automove_freeratio", Use::Ignored(Takes::Part(1.0))),
    option("slab_automove_version", Use::Ignored(Takes::Anything)),
    option("slab_chunk_max", Use::Ignored(Takes::Whole(1, i32::MAX as i64))),
    option("slab_sizes", Use::Ignored(Takes::Anything)),
    option("no_chunked_items", Use::Ignored(Takes::Nothing)),
    option("lru_crawler", Use::Ignored(Takes::Nothing)),
    option("no_lru_crawler", Use::Ignored(Takes::Nothing)),
    option("lru_crawler_sleep", Use::Ignored(Takes::Whole(0, 1_000_000))),
    option("lru_crawler_tocrawl", Use::Ignored(COUNT)),
    option("lru_maintainer", Use::Ignored(Takes::Nothing)),
    option("no_lru_maintainer", Use::Ignored(Takes::Nothing)),
    option("hot_lru_pct", Use::Ignored(Takes::Whole(1, 79))),
    option("warm_lru_pct", Use::Ignored(Takes::Whole(1, 79))),
    option("hot_max_factor", Use::Ignored(Takes::Part(f64::MAX))),
    option("warm_max_factor", Use::Ignored(Takes::Part(f64::MAX))),
    option("temporary_ttl", Use::Ignored(Takes::Whole(i32::MIN as i64, i32::MAX as i64))),
    option("track_sizes", Use::Ignored(Takes::Nothing)),
    option("watcher_logbuf_size", Use::Ignored(COUNT)),
    option("worker_logbuf_size", Use::Ignored(COUNT)),
    option("read_buf_mem_limit", Use::Ignored(COUNT)),
    option("resp_obj_mem_limit", Use::Ignored(Takes::Anything)),
    option("inline_ascii_response", Use::Ignored(Takes::Nothing)),
    option("no_inline_ascii_resp", Use::Ignored(Takes::Nothing)),
    option("meta_response_old", Use::Refused("the meta replies of memcached 1.6.0")),
    option("drop_privileges", Use::Ignored(Takes::Nothing)),
    option("no_drop_privileges", Use::Ignored(Takes::Nothing)),
    option("relaxed_privileges", Use::Ignored(Takes::Nothing)),
    option("sock_cookie_id", Use::Ignored(COUNT)),
    option("ext_path", Use::ExtPath),
    option("ext_page_size", different("flash is written in regions of 16 MiB")),
    option("ext_wbuf_size", different("flash is written in chunks of 1 MiB")),
    option("ext_threads", different("threads that serve clients also read flash, through io_uring")),
    option("ext_io_depth", different("each thread that serves clients has up to 64 reads in flight")),
    option("ext_item_size", different("items of every length up to an eighth of a segment move to flash")),
    option("ext_item_age", different("items move to flash when memory is full")),
    option("ext_low_ttl", different("items on flash are always grouped by their time to live")),
    option(
        "ext_drop_unread",
        Use::AsIs("Items on flash that were not read since they were written are never rewritten."),
    ),
    option("ext_recache_rate", different("the second read of an item on flash brings it back to memory")),
    option("ext_compact_under", different("regions of flash are freed as needed")),
    option("ext_drop_under", different("regions of flash are freed as needed")),
    option(
        "ext_max_frag",
        Use::Different(Takes::Decimal, "a region of flash is freed when less than a quarter of it is in use"),
    ),
    option("ext_max_sleep", different("the threads of flash wait for work")),
    option("ssl_chain_cert", tls(TlsOption::Chain)),
    option("ssl_key", tls(TlsOption::Key)),
    option("ssl_keyformat", tls(TlsOption::KeyFormat)),
    option("ssl_verify_mode", tls(TlsOption::VerifyMode)),
    option("ssl_ciphers", tls(TlsOption::Ciphers)),
    option("ssl_ca_cert", tls(TlsOption::CaCert)),
    option("ssl_wbuf_size", different("records are sealed in buffers that all connections share")),
    option("ssl_session_cache", Use::AsIs("Clients can always resume sessions.")),
    option("ssl_kernel_tls", Use::Refused("TLS in the kernel")),
    option("ssl_min_version", tls(TlsOption::MinVersion)),
    option("proxy_config", PROXY),
    option("proxy_uring", PROXY),
    option("proxy_arg", PROXY),
    option("proxy_memprofile", PROXY),
];

impl Suboption {
    /// Describes the option's effect in a sentence.
    pub fn what(&self) -> String {
        match self.use_ {
            Use::Ignored(_) => "Accepted without effect.".to_owned(),
            Use::Different(_, how) => format!("Accepted without effect: {how}."),
            Use::AsIs(what) => what.to_owned(),
            Use::ExtPath => {
                "PATH:SIZE with the unit m, g, t or p: a file or device to which items move that do not fit in memory; \
                 may be repeated. A file of memcached's is emptied."
                    .to_owned()
            }
            Use::IdleTimeout => {
                "Seconds without a request after which a connection is closed; default 0 for never.".to_owned()
            }
            Use::Tls(option) => option.what().to_owned(),
            Use::Refused(what) => format!("Refused: this build does not have {what}."),
        }
    }

    /// Checks `value` as memcached does.
    pub fn check(&self, value: Option<&str>) -> Result<(), String> {
        let takes = match self.use_ {
            Use::Ignored(takes) | Use::Different(takes, _) => takes,
            Use::IdleTimeout => Takes::Whole(0, i32::MAX as i64),
            Use::ExtPath => return ext_path(value.unwrap_or_default()).map(|_| ()),
            Use::Tls(TlsOption::VerifyMode | TlsOption::MinVersion) => Takes::Whole(0, 3),
            Use::Tls(TlsOption::KeyFormat) => Takes::Word(&["PEM", "pem", "1"]),
            Use::Tls(_) => Takes::Something,
            Use::AsIs(_) | Use::Refused(_) => return Ok(()),
        };
        let name = self.name;
        let missing = || format!("-o {name} needs a value; write {name}=VALUE");
        match takes {
            Takes::Nothing | Takes::Anything => Ok(()),
            Takes::Whole(least, most) => match super::atoi::number(value.ok_or_else(missing)?) {
                (number, _) if (least..=most).contains(&number) => Ok(()),
                (number, _) => Err(format!("-o {name} is {number}; write a value from {least} to {most}")),
            },
            Takes::Part(most) => match value.ok_or_else(missing)?.parse::<f64>() {
                Ok(part) if part > 0.0 && part <= most => Ok(()),
                _ if most > 1.0 => Err(format!("-o {name} is not a number above 0; write one")),
                _ => Err(format!("-o {name} must be above 0 and at most {most}")),
            },
            Takes::Digits => match value.ok_or_else(missing)?.parse::<u64>() {
                Ok(_) => Ok(()),
                Err(_) => Err(format!("-o {name} is not a whole number; write one")),
            },
            Takes::Decimal => match value.ok_or_else(missing)?.parse::<f64>() {
                Ok(_) => Ok(()),
                Err(_) => Err(format!("-o {name} is not a number; write one")),
            },
            Takes::Something => value.filter(|value| !value.is_empty()).map(|_| ()).ok_or_else(missing),
            Takes::Word(words) => match value.ok_or_else(missing)? {
                value if words.contains(&value) => Ok(()),
                _ => Err(format!("-o {name} has an unknown value; write one of {}", words.join(", "))),
            },
        }
    }
}

/// The names of the kinds of pages that may follow the size of an `ext_path`.
const BUCKETS: [&str; 4] = ["compact", "lowttl", "chunked", "default"];

/// Parses the value of `ext_path`, `PATH:SIZE` or `PATH:SIZE:BUCKET`. Returns the path, and the size in MiB.
pub fn ext_path(text: &str) -> Result<(&str, u64), String> {
    let wrong = |what: &str| Err(format!("-o ext_path={text}: {what}; write it as in ext_path=/mnt/d1/extstore:64g"));
    let mut parts = text.split(':').filter(|part| !part.is_empty());
    let (Some(path), Some(size)) = (parts.next(), parts.next()) else {
        return wrong("the path or the size is missing");
    };
    if parts.next().is_some_and(|bucket| !BUCKETS.contains(&bucket)) {
        return wrong("the kind of pages is unknown");
    }
    let mib_shift = match size.as_bytes().last() {
        Some(b'm' | b'M') => 0,
        Some(b'g' | b'G') => 10,
        Some(b't' | b'T') => 20,
        Some(b'p' | b'P') => 30,
        _ => return wrong("the size needs one of the units m, g, t and p"),
    };
    let (count, _) = super::atoi::number(&size[..size.len() - 1]);
    match u64::try_from(count) {
        Ok(count @ 1..) => Ok((path, count << mib_shift)),
        _ => wrong("the size is 0"),
    }
}

/// Parses the options in `text` with their values; an unknown option becomes an error message.
pub fn read(text: &str) -> Vec<Result<(&'static Suboption, Option<&str>), String>> {
    let one = |part| {
        let (name, value) = match str::split_once(part, '=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        if let Some(option) = SUBOPTIONS.iter().find(|option| option.name == name) {
            return Ok((option, value));
        }
        Err(match nearest(name, SUBOPTIONS.iter().map(|option| option.name)) {
            Some(known) => format!("unknown option {name} of -o; did you mean {known}?"),
            None => format!("unknown option {name} of -o; -h lists them"),
        })
    };
    text.split(',').filter(|part| !part.is_empty()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes_of(text: &str) -> Vec<String> {
        read(text)
            .into_iter()
            .map(|one| match one {
                Ok((option, value)) => option.check(value).err().unwrap_or_else(|| option.name.to_owned()),
                Err(what) => what,
            })
            .collect()
    }

    #[test]
    fn suboptions_are_parsed_and_range_checked() {
        assert_eq!(notes_of("modern,hashpower=20,,hash_algorithm=xxh3"), ["modern", "hashpower", "hash_algorithm"]);
        assert_eq!(notes_of("hashpower=11"), ["-o hashpower is 11; write a value from 12 to 32"]);
        assert_eq!(notes_of("hashpower"), ["-o hashpower needs a value; write hashpower=VALUE"]);
        assert_eq!(notes_of("slab_automove_ratio=2").len(), 1);
        assert!(notes_of("slab_automove_ratio=2")[0].contains("at most 1"));
        assert!(notes_of("hot_max_factor=-1")[0].contains("above 0"));
        assert!(notes_of("hash_algorithm=md5")[0].contains("jenkins, murmur3, xxh3"));
    }

    #[test]
    fn unknown_suboption_suggests_the_nearest() {
        assert_eq!(notes_of("idle_timout=3"), ["unknown option idle_timout of -o; did you mean idle_timeout?"]);
        assert_eq!(notes_of("bogus"), ["unknown option bogus of -o; -h lists them"]);
    }

    #[test]
    fn ext_path_without_a_path_or_a_size_is_refused() {
        assert_eq!(ext_path("/mnt/d1/extstore:64g"), Ok(("/mnt/d1/extstore", 64 << 10)));
        assert_eq!(ext_path("/dev/sdz:2T:compact"), Ok(("/dev/sdz", 2 << 20)));
        for text in ["", "/x", "/x:", ":1g", "/x:1", "/x:1k", "/x:0m", "/x:-1m", "/x:1g:foo"] {
            let fault = ext_path(text).expect_err(text);
            assert!(fault.starts_with(&format!("-o ext_path={text}: ")) && fault.contains("; "), "{fault}");
        }
        assert_eq!(notes_of("ext_path,ext_item_size=x,ext_max_frag").len(), 3);
        assert_eq!(notes_of("ext_item_size=x"), ["-o ext_item_size is not a whole number; write one"]);
    }

    #[test]
    fn names_are_unique() {
        for (at, option) in SUBOPTIONS.iter().enumerate() {
            assert!(SUBOPTIONS[..at].iter().all(|other| other.name != option.name), "{}", option.name);
        }
    }
}
