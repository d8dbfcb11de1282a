//! Decompression of request messages, in steps.
//!
//! ```text
//!   compressed message ──> decoder ──> up to STEP_BYTES of the message ──> the visit ends ──> next step ...
//! ```
//!
//! A client chooses the compression by `grpc-encoding` and marks each compressed message by a flag. Replies are never
//! compressed.
//!
//! Bounds: a message has at most [`MESSAGE_BYTES_MAX`] bytes, compressed and decompressed. Both, and the decoder, count
//! as client memory, but a decoder of zstd only after it has allocated its window of at most 2^[`WINDOW_LOG_MAX`]
//! bytes. A connection decompresses one message at a time, and a step writes at most [`STEP_BYTES`], so that a message
//! that expands a thousandfold does not delay other clients.

use super::plan::{CallError, message_error};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use protocol::grpc::{MESSAGE_BYTES_MAX, MessageError, Status};
use std::io::{Cursor, Error, ErrorKind, Read};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

/// The maximum number of bytes that one step writes: about 50 us of work.
const STEP_BYTES: usize = 32 << 10;

/// The binary logarithm of the longest window of zstd that is accepted: 8 MiB, as RFC 8878 recommends.
const WINDOW_LOG_MAX: u32 = 23;

/// The approximate memory of a decoder of gzip or deflate, in bytes.
const INFLATE_BYTES: usize = 48 << 10;

/// The names of the encodings that a request may have.
pub(super) const ENCODINGS: &str = "identity,deflate,gzip,zstd";

/// The encoding of the compressed messages of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    /// The request has none: none of its messages may be compressed.
    #[default]
    Identity,
    Deflate,
    Gzip,
    Zstd,
    /// The server does not know the encoding.
    Unknown,
}

impl Encoding {
    /// Returns the encoding with a name.
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"identity" => Self::Identity,
            b"deflate" => Self::Deflate,
            b"gzip" => Self::Gzip,
            b"zstd" => Self::Zstd,
            _ => Self::Unknown,
        }
    }

    /// Checks that a message may be compressed with the encoding.
    ///
    /// # Errors
    /// If the client did not name the encoding, or the server does not know it.
    pub(super) fn check(self) -> Result<(), CallError> {
        match self {
            Self::Identity => {
                let text = "the message is compressed, but grpc-encoding does not name its encoding";
                Err(CallError::new(Status::Internal, text))
            }
            Self::Unknown => {
                let text = "the encoding of the message is unknown; use deflate, gzip or zstd, or no compression";
                Err(CallError::new(Status::Unimplemented, text).accepting(ENCODINGS))
            }
            _ => Ok(()),
        }
    }
}

/// A message that is being decompressed.
pub(super) struct Decompression {
    decoder: Decoder,
    /// The decompressed part of the message.
    message: Vec<u8>,
}

enum Decoder {
    Deflate(ZlibDecoder<Cursor<Vec<u8>>>),
    Gzip(MultiGzDecoder<Cursor<Vec<u8>>>),
    Zstd(ZstdReader),
}

impl Decompression {
    /// Begins to decompress a message.
    ///
    /// # Errors
    /// If its encoding is unknown, or no decoder can be created.
    pub(super) fn begin(encoding: Encoding, compressed: Vec<u8>) -> Result<Self, CallError> {
        encoding.check()?;
        let decoder = match encoding {
            Encoding::Deflate => Decoder::Deflate(ZlibDecoder::new(Cursor::new(compressed))),
            Encoding::Gzip => Decoder::Gzip(MultiGzDecoder::new(Cursor::new(compressed))),
            _ => Decoder::Zstd(ZstdReader::new(compressed).map_err(|error| malformed(&error))?),
        };
        Ok(Self { decoder, message: Vec::new() })
    }

    /// Decompresses the next part. Returns true when the message is complete.
    ///
    /// # Errors
    /// If the bytes are malformed, or the message is too long.
    pub(super) fn step(&mut self) -> Result<bool, CallError> {
        // One byte more than the maximum shows that the message is too long.
        let most = STEP_BYTES.min(MESSAGE_BYTES_MAX as usize + 1 - self.message.len());
        let begun = self.message.len();
        self.message.resize(begun + most, 0);
        let read = read_full(self.decoder.reader(), &mut self.message[begun..]);
        let read = read.map_err(|error| malformed(&error))?;
        self.message.truncate(begun + read);
        if self.message.len() > MESSAGE_BYTES_MAX as usize {
            return Err(message_error(MessageError::TooLong));
        }
        Ok(read < most)
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let decoder = match &self.decoder {
            Decoder::Deflate(decoder) => INFLATE_BYTES + decoder.get_ref().get_ref().capacity(),
            Decoder::Gzip(decoder) => INFLATE_BYTES + decoder.get_ref().get_ref().capacity(),
            Decoder::Zstd(reader) => reader.context.sizeof() + reader.compressed.capacity(),
        };
        decoder + self.message.capacity()
    }

    /// Returns the complete message.
    pub(super) fn into_message(self) -> Vec<u8> {
        let mut message = self.message;
        message.shrink_to_fit();
        message
    }
}

impl Decoder {
    fn reader(&mut self) -> &mut dyn Read {
        match self {
            Self::Deflate(decoder) => decoder,
            Self::Gzip(decoder) => decoder,
            Self::Zstd(reader) => reader,
        }
    }
}

/// Reads until `into` is full or the message ends. Returns the number of bytes.
fn read_full(reader: &mut dyn Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match reader.read(&mut into[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

fn malformed(error: &Error) -> CallError {
    CallError::new(Status::Internal, format!("the message cannot be decompressed: {error}"))
}

/// A decoder of zstd whose memory is known.
struct ZstdReader {
    context: DCtx<'static>,
    compressed: Vec<u8>,
    at: usize,
    /// True if the last frame is complete.
    is_complete: bool,
}

impl ZstdReader {
    fn new(compressed: Vec<u8>) -> std::io::Result<Self> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(zstd_error)?;
        Ok(Self { context, compressed, at: 0, is_complete: false })
    }
}

impl Read for ZstdReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if self.is_complete && self.at == self.compressed.len() {
                return Ok(0);
            }
            let mut input = InBuffer { src: &self.compressed, pos: self.at };
            let mut output = OutBuffer::around(&mut *into);
            let wanted = self.context.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
            let (consumed, written) = (input.pos() - self.at, output.pos());
            self.at += consumed;
            self.is_complete = wanted == 0;
            if written > 0 {
                return Ok(written);
            }
            if consumed == 0 && !self.is_complete {
                return Err(Error::new(ErrorKind::UnexpectedEof, "its end is missing"));
            }
        }
    }
}

fn zstd_error(code: usize) -> Error {
    Error::new(ErrorKind::InvalidData, get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn compressed(encoding: Encoding, message: &[u8]) -> Vec<u8> {
        match encoding {
            Encoding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(message).expect("memory");
                encoder.finish().expect("memory")
            }
            Encoding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(message).expect("memory");
                encoder.finish().expect("memory")
            }
            _ => zstd::bulk::compress(message, 3).expect("memory"),
        }
    }

    const ALL: [Encoding; 3] = [Encoding::Deflate, Encoding::Gzip, Encoding::Zstd];

    /// Returns the message, and the number of steps.
    fn decompressed(encoding: Encoding, bytes: &[u8]) -> Result<(Vec<u8>, usize), CallError> {
        let mut decompression = Decompression::begin(encoding, bytes.to_vec())?;
        for step in 1.. {
            let before = decompression.message.len();
            let is_done = decompression.step()?;
            assert!(decompression.message.len() - before <= STEP_BYTES && decompression.bytes() >= bytes.len());
            if is_done {
                return Ok((decompression.into_message(), step));
            }
        }
        unreachable!("a message has an end")
    }

    #[test]
    fn messages_of_any_length_are_restored_in_bounded_steps() {
        for encoding in ALL {
            for len in [0, 1, 1000, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 1 << 20, MESSAGE_BYTES_MAX as usize] {
                let message: Vec<u8> = (0..len).map(|at| ((at * at) >> 7) as u8).collect();
                let (restored, steps) = decompressed(encoding, &compressed(encoding, &message)).expect("valid");
                assert!(restored == message, "{encoding:?} {len}");
                assert!(steps > len / STEP_BYTES, "{encoding:?} {len} {steps}");
            }
        }
    }

    #[test]
    fn message_that_expands_beyond_the_maximum_is_refused() {
        for encoding in ALL {
            let bomb = compressed(encoding, &vec![0; 100 << 20]);
            let error = decompressed(encoding, &bomb).expect_err("too long");
            assert_eq!(error.status, Status::ResourceExhausted, "{encoding:?}");
        }
    }

    #[test]
    fn message_that_is_cut_or_changed_is_refused_or_restored_and_never_shortened() {
        let message: Vec<u8> = (0..5000u32).flat_map(|at| (at % 251).to_le_bytes()).collect();
        for encoding in ALL {
            let whole = compressed(encoding, &message);
            for len in 0..whole.len() {
                match decompressed(encoding, &whole[..len]) {
                    Err(error) => assert_eq!(error.status, Status::Internal, "{encoding:?} {len}"),
                    Ok((restored, _)) => panic!("{encoding:?}: {len} bytes gave {}", restored.len()),
                }
            }
            for at in 0..whole.len() {
                let mut changed = whole.clone();
                changed[at] ^= 0x55;
                let _ = decompressed(encoding, &changed);
            }
        }
    }

    #[test]
    fn window_of_zstd_beyond_the_maximum_is_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("memory");
        encoder.set_parameter(zstd::zstd_safe::CParameter::WindowLog(WINDOW_LOG_MAX + 1)).expect("a valid size");
        encoder.write_all(&[7; 100]).expect("memory");
        let bytes = encoder.finish().expect("memory");
        assert_eq!(decompressed(Encoding::Zstd, &bytes).expect_err("too long a window").status, Status::Internal);
    }

    #[test]
    fn only_named_and_known_encodings_are_accepted() {
        assert_eq!(Encoding::named(b"br"), Encoding::Unknown);
        let error = Encoding::named(b"br").check().expect_err("unknown");
        assert_eq!((error.status, error.metadata), (Status::Unimplemented, Some(("grpc-accept-encoding", ENCODINGS))));
        assert_eq!(Encoding::Identity.check().expect_err("not named").status, Status::Internal);
    }
}
