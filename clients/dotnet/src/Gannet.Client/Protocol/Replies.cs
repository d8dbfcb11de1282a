using System;
using System.Buffers;
using System.Buffers.Binary;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Gannet.Client.Protocol
{
    /// <summary>
    /// The messages of the body of a response. Each has a head of five bytes: 0 because it is not compressed, then its
    /// length. Its memory is bounded by the maximum size of a message and the number of messages.
    /// </summary>
    internal sealed class Replies : IDisposable
    {
        private const int BufferSize = 4096;
        private readonly int messageBytesMax;
        private readonly List<ReadOnlyMemory<byte>> messages = new List<ReadOnlyMemory<byte>>(1);
        private byte[] buffer = ArrayPool<byte>.Shared.Rent(BufferSize);
        private int have;

        public Replies(int messageBytesMax)
        {
            this.messageBytesMax = messageBytesMax;
        }

        public IReadOnlyList<ReadOnlyMemory<byte>> Messages => messages;

        /// <summary>Why the messages cannot be read, or null.</summary>
        public string? Problem { get; private set; }

        /// <summary>True if the problem is the size of a message.</summary>
        public bool IsTooLong { get; private set; }

        /// <summary>Reads all messages, to the end of the stream or to a problem.</summary>
        public async ValueTask ReadAsync(Stream stream, CancellationToken cancellation)
        {
            while (Accept(await stream.ReadAsync(buffer.AsMemory(have), cancellation).ConfigureAwait(false)))
            {
            }
        }

        /// <summary>
        /// Reads the next bytes of a stream, and replaces the messages by those that they complete, if any. Returns
        /// false at the end of the stream, or at a problem.
        /// </summary>
        public async ValueTask<bool> ReadNextAsync(Stream stream, CancellationToken cancellation)
        {
            messages.Clear();
            return Accept(await stream.ReadAsync(buffer.AsMemory(have), cancellation).ConfigureAwait(false));
        }

        /// <summary>Returns the buffer. No read may be in progress.</summary>
        public void Dispose()
        {
            var last = buffer;
            buffer = Array.Empty<byte>();
            if (last.Length > 0)
            {
                ArrayPool<byte>.Shared.Return(last);
            }
        }

        /// <summary>Takes the messages of further bytes. Returns false after the last ones.</summary>
        private bool Accept(int count)
        {
            if (count == 0)
            {
                Problem ??= have > 0 ? "a message ends too early" : null;
                return false;
            }
            have = Take(have + count);
            return Problem == null;
        }

        /// <summary>
        /// Takes the complete messages from the first <paramref name="filled"/> bytes of the buffer, moves the rest to
        /// its start, and returns the length of the rest. The buffer has room for the message that is incomplete.
        /// </summary>
        private int Take(int filled)
        {
            var at = 0;
            var needed = Wire.HeadSize;
            while (filled - at >= Wire.HeadSize)
            {
                var length = BinaryPrimitives.ReadUInt32BigEndian(buffer.AsSpan(at + 1));
                if (buffer[at] != 0)
                {
                    Problem = "a message is compressed, which the client did not request";
                    return 0;
                }
                if (length > messageBytesMax)
                {
                    IsTooLong = true;
                    Problem =
                        $"a reply has {length} bytes, above the maximum of {messageBytesMax}; raise MessageBytesMax";
                    return 0;
                }
                needed = Wire.HeadSize + (int)length;
                if (filled - at < needed)
                {
                    break;
                }
                messages.Add(buffer.AsSpan(at + Wire.HeadSize, (int)length).ToArray());
                at += needed;
                needed = Wire.HeadSize;
            }
            if (needed > buffer.Length)
            {
                var larger = ArrayPool<byte>.Shared.Rent(needed);
                Buffer.BlockCopy(buffer, at, larger, 0, filled - at);
                ArrayPool<byte>.Shared.Return(buffer);
                buffer = larger;
            }
            else if (at > 0 && filled > at)
            {
                Buffer.BlockCopy(buffer, at, buffer, 0, filled - at);
            }
            return filled - at;
        }
    }
}
