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
    internal sealed class Replies
    {
        private const int BufferSize = 4096;
        private readonly int messageBytesMax;
        private readonly List<ReadOnlyMemory<byte>> messages = new List<ReadOnlyMemory<byte>>(1);

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
            var buffer = ArrayPool<byte>.Shared.Rent(BufferSize);
            try
            {
                var have = 0;
                while (true)
                {
                    var count = await stream.ReadAsync(buffer.AsMemory(have), cancellation).ConfigureAwait(false);
                    if (count == 0)
                    {
                        Problem ??= have > 0 ? "a message ends too early" : null;
                        return;
                    }
                    have = Take(ref buffer, have + count);
                    if (Problem != null)
                    {
                        return;
                    }
                }
            }
            finally
            {
                ArrayPool<byte>.Shared.Return(buffer);
            }
        }

        /// <summary>
        /// Takes the complete messages from the first <paramref name="have"/> bytes of the buffer, moves the rest to
        /// its start, and returns the length of the rest. The buffer has room for the message that is incomplete.
        /// </summary>
        private int Take(ref byte[] buffer, int have)
        {
            var at = 0;
            var needed = Wire.HeadSize;
            while (have - at >= Wire.HeadSize)
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
                if (have - at < needed)
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
                Buffer.BlockCopy(buffer, at, larger, 0, have - at);
                ArrayPool<byte>.Shared.Return(buffer);
                buffer = larger;
            }
            else if (at > 0 && have > at)
            {
                Buffer.BlockCopy(buffer, at, buffer, 0, have - at);
            }
            return have - at;
        }
    }
}
