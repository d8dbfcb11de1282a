//! Buffers that the gRPC connections of a worker share. Between two visits, nothing in them belongs to a connection.

use crate::visit::out::{OUT_BYTES, OutBuffer};
use protocol::http2::{ConnectionLimits, FieldList};

/// The buffers of a worker.
pub(crate) struct GrpcBuffers {
    /// The header fields of the request that is being received.
    pub(crate) fields: FieldList,
    /// The replies of the Redis session to the commands of a call. The block has [`OUT_BYTES`] bytes, except during the
    /// execution of a command with a longer reply.
    pub(crate) out: Box<OutBuffer>,
    /// An empty buffer for the commands of the next connection with gets or sets.
    pub(crate) requests: Vec<u8>,
}

impl GrpcBuffers {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            fields: FieldList::new(ConnectionLimits::DEFAULT.header_list_bytes_max as usize),
            out: Self::new_out(OUT_BYTES),
            requests: Vec::new(),
        })
    }

    fn new_out(bytes: usize) -> Box<OutBuffer> {
        Box::new(OutBuffer::new(vec![0; bytes].into()))
    }

    /// Replaces the output, which is empty, by one with room for a reply of `bytes` bytes.
    pub(crate) fn extend_out(&mut self, bytes: usize) {
        self.out = Self::new_out(bytes);
    }

    /// Replaces a longer output by one of the usual size.
    pub(crate) fn restore_out(&mut self) {
        if self.out.capacity() != OUT_BYTES {
            self.out = Self::new_out(OUT_BYTES);
        }
    }
}
