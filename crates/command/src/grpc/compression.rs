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
//! bytes. A connection decompresses one message at a time. A step writes at most [`STEP_BYTES`] and reads at most
//! [`INPUT_STEP_BYTES`], so that neither a message that expands a thousandfold nor one that expands to nothing delays
//! other clients.

use super::plan::{CallError, message_error};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use protocol::grpc::{MESSAGE_BYTES_MAX, MessageError, Status};
use std::io::{BufRead, Error, ErrorKind, Read};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

/// The maximum number of bytes that one step writes: about 50 us of work.
const STEP_BYTES: usize = 32 << 10;

/// The maximum number of bytes that one step reads. An empty part of a compressed message has a few bytes.
const INPUT_STEP_BYTES: usize = 16 << 10;

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
    Deflate(ZlibDecoder<CompressedInput>),
    Gzip(MultiGzDecoder<CompressedInput>),
    Zstd(ZstdReader),
}

impl Decompression {
    /// Begins to decompress a message.
    ///
    /// # Errors
    /// If its encoding is unknown, or no decoder can be created.
    pub(super) fn begin(encoding: Encoding, compressed: Vec<u8>) -> Result<Self, CallError> {
        encoding.check()?;
        let input = CompressedInput { bytes: compressed, at: 0, end: 0 };
        let decoder = match encoding {
            Encoding::Deflate => Decoder::Deflate(ZlibDecoder::new(input)),
            Encoding::Gzip => Decoder::Gzip(MultiGzDecoder::new(input)),
            _ => Decoder::Zstd(ZstdReader::new(input).map_err(|error| malformed(&error))?),
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
        self.decoder.input().begin_step();
        let read = read_full(self.decoder.reader(), &mut self.message[begun..]);
        let (read, is_complete) = read.map_err(|error| malformed(&error))?;
        self.message.truncate(begun + read);
        if self.message.len() > MESSAGE_BYTES_MAX as usize {
            return Err(message_error(MessageError::TooLong));
        }
        Ok(is_complete)
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let decoder = match &self.decoder {
            Decoder::Deflate(decoder) => INFLATE_BYTES + decoder.get_ref().bytes.capacity(),
            Decoder::Gzip(decoder) => INFLATE_BYTES + decoder.get_ref().bytes.capacity(),
            Decoder::Zstd(reader) => reader.context.sizeof() + reader.input.bytes.capacity(),
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

    fn input(&mut self) -> &mut CompressedInput {
        match self {
            Self::Deflate(decoder) => decoder.get_mut(),
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zstd(reader) => &mut reader.input,
        }
    }
}

/// A compressed message, of which each step reads a part. The end of the part is an error of the kind `WouldBlock`.
struct CompressedInput {
    bytes: Vec<u8>,
    at: usize,
    /// The end of the part that the step may read.
    end: usize,
}

impl CompressedInput {
    fn begin_step(&mut self) {
        self.end = self.bytes.len().min(self.at + INPUT_STEP_BYTES);
    }

    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

impl BufRead for CompressedInput {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.at == self.end && !self.is_at_end() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes[self.at..self.end])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for CompressedInput {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

/// Reads until `into` is full, or the message or the part of the step ends. Returns the number of bytes, and true if
/// the message ends.
fn read_full(reader: &mut dyn Read, into: &mut [u8]) -> std::io::Result<(usize, bool)> {
    let mut read = 0;
    while read < into.len() {
        match reader.read(&mut into[read..]) {
            Ok(0) => return Ok((read, true)),
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok((read, false))
}

fn malformed(error: &Error) -> CallError {
    CallError::new(Status::Internal, format!("the message cannot be decompressed: {error}"))
}

/// A decoder of zstd whose memory is known.
struct ZstdReader {
    context: DCtx<'static>,
    input: CompressedInput,
    /// True if the last frame is complete.
    is_complete: bool,
}

impl ZstdReader {
    fn new(input: CompressedInput) -> std::io::Result<Self> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(zstd_error)?;
        Ok(Self { context, input, is_complete: false })
    }
}

impl Read for ZstdReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if self.is_complete && self.input.is_at_end() {
                return Ok(0);
            }
            let mut input = InBuffer::around(&self.input.bytes[self.input.at..self.input.end]);
            let mut output = OutBuffer::around(&mut *into);
            let wanted = self.context.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
            let (consumed, written) = (input.pos(), output.pos());
            self.input.consume(consumed);
            self.is_complete = wanted == 0;
            if written > 0 {
                return Ok(written);
            }
            if consumed == 0 && !self.input.is_at_end() {
                return Err(ErrorKind::WouldBlock.into());
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

    /// Returns compressed bytes of about a length that expand to nothing.
    fn expanding_to_nothing(encoding: Encoding, len: usize) -> Vec<u8> {
        let empty = compressed(encoding, b"");
        match encoding {
            // One message of empty blocks, and the last one with the checksum.
            Encoding::Deflate => {
                let blocks = [0, 0, 0, 0xff, 0xff].repeat(len / 5);
                [&[0x78, 1][..], &blocks, &[1, 0, 0, 0xff, 0xff, 0, 0, 0, 1]].concat()
            }
            _ => empty.repeat(len / empty.len()),
        }
    }

    #[test]
    fn message_that_expands_to_nothing_is_read_in_bounded_steps() {
        for encoding in ALL {
            let bytes = expanding_to_nothing(encoding, 1 << 20);
            let (message, steps) = decompressed(encoding, &bytes).expect("valid");
            assert!(message.is_empty() && steps >= bytes.len() / INPUT_STEP_BYTES, "{encoding:?} {steps}");
        }
        // A frame of zstd that decoders skip.
        let skipped = [&0x184d_2a50u32.to_le_bytes()[..], &0u32.to_le_bytes()].concat();
        let (message, steps) = decompressed(Encoding::Zstd, &skipped.repeat(100_000)).expect("valid");
        assert!(message.is_empty() && steps >= 8 * 100_000 / INPUT_STEP_BYTES, "{steps}");
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
