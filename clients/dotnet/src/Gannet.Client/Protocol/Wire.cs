using System;
using System.Buffers.Binary;
using System.Text;

namespace Gannet.Client.Protocol
{
    // The wire format of protocol buffers, as far as the schema uses it. A message is a sequence of fields. Each field
    // begins with a tag, `number << 3 | kind`:
    //
    //     kind 0   varint: bits in groups of seven, the lowest first; bit 7 of a byte is set if another byte follows
    //     kind 1   eight bytes, little endian
    //     kind 2   a varint with a length, then as many bytes: bytes, text, messages, packed numbers
    //     kind 5   four bytes, little endian
    //
    // The generated code computes the size of a message first, allocates one buffer, and writes the fields into it.

    /// <summary>A message of a request.</summary>
    internal interface IRequest
    {
        /// <summary>Returns the size of the message in bytes.</summary>
        int Size();

        /// <summary>Writes the message.</summary>
        void Write(ref Writer output);
    }

    /// <summary>A message of a request on one key.</summary>
    internal interface IKeyed
    {
        Bytes Key { get; }
    }

    /// <summary>A call of the schema.</summary>
    internal sealed class Method
    {
        public Method(string service, string name, bool streams)
        {
            Service = service;
            Name = name;
            Path = $"/{service}/{name}";
            Streams = streams;
        }

        /// <summary>The full name of the service, such as <c>gannet.v1.Cache</c>.</summary>
        public string Service { get; }

        public string Name { get; }

        public string Path { get; }

        /// <summary>True if the server sends several replies.</summary>
        public bool Streams { get; }
    }

    /// <summary>A reply contradicts the schema.</summary>
    internal sealed class BadReplyException : Exception
    {
        public BadReplyException(string message)
            : base(message)
        {
        }
    }

    internal static class Wire
    {
        /// <summary>Size of the head of a gRPC message: a flag of compression, then the length, big endian.</summary>
        public const int HeadSize = 5;

        public static int SizeOfVarint(ulong value)
        {
            var size = 1;
            for (; value >= 0x80; value >>= 7)
            {
                size++;
            }
            return size;
        }

        /// <summary>Returns the size of a length and as many bytes.</summary>
        public static int SizeOfBlock(int length) => SizeOfVarint((uint)length) + length;

        /// <summary>Returns an integer with its sign in the lowest bit.</summary>
        public static uint ZigZag(int value) => (uint)((value << 1) ^ (value >> 31));

        /// <summary>Returns an integer of 64 bits with its sign in the lowest bit.</summary>
        public static ulong ZigZag64(long value) => (ulong)((value << 1) ^ (value >> 63));

        /// <summary>Returns a gRPC message: the head, then the request.</summary>
        public static byte[] Frame(IRequest request)
        {
            var size = request.Size();
            var frame = new byte[HeadSize + size];
            BinaryPrimitives.WriteInt32BigEndian(frame.AsSpan(1), size);
            var output = new Writer(frame.AsSpan(HeadSize));
            request.Write(ref output);
            return output.IsFull ? frame : throw new InvalidOperationException(
                "a message changed while it was written");
        }
    }

    /// <summary>Writes fields into a buffer that is as long as the message.</summary>
    internal ref struct Writer
    {
        private readonly Span<byte> buffer;
        private int at;

        public Writer(Span<byte> buffer)
        {
            this.buffer = buffer;
            at = 0;
        }

        public bool IsFull => at == buffer.Length;

        public void Tag(byte tag) => buffer[at++] = tag;

        public void Varint(ulong value)
        {
            for (; value >= 0x80; value >>= 7)
            {
                buffer[at++] = (byte)(value | 0x80);
            }
            buffer[at++] = (byte)value;
        }

        public void Signed(long value) => Varint((ulong)value);

        public void ZigZag(int value) => Varint(Wire.ZigZag(value));

        public void ZigZag64(long value) => Varint(Wire.ZigZag64(value));

        public void Bool(bool value) => buffer[at++] = value ? (byte)1 : (byte)0;

        public void Double(double value)
        {
            BinaryPrimitives.WriteInt64LittleEndian(buffer.Slice(at), BitConverter.DoubleToInt64Bits(value));
            at += 8;
        }

        public void Block(Bytes value)
        {
            Varint((uint)value.Length);
            at += value.CopyTo(buffer.Slice(at));
        }

        public void Message(IRequest message)
        {
            Varint((uint)message.Size());
            message.Write(ref this);
        }
    }

    /// <summary>Reads fields of a message. Throws <see cref="BadReplyException"/> if the bytes end too early.</summary>
    internal ref struct Reader
    {
        private readonly ReadOnlyMemory<byte> memory;
        // The server nests values of bins in 8 levels, of two messages each.
        private const int DepthMax = 64;

        private readonly ReadOnlySpan<byte> span;
        private int depth;

        public Reader(ReadOnlyMemory<byte> memory)
        {
            this.memory = memory;
            span = memory.Span;
            depth = 0;
            At = 0;
        }

        /// <summary>Index of the next byte.</summary>
        public int At { get; private set; }

        public int End => span.Length;

        /// <summary>Reads a tag. Those of the schema have one byte.</summary>
        public uint Tag() => UInt32();

        public ulong Varint()
        {
            ulong value = 0;
            for (var shift = 0; shift < 70; shift += 7)
            {
                var next = Byte();
                value |= (ulong)(next & 0x7f) << shift;
                if (next < 0x80)
                {
                    return value;
                }
            }
            throw new BadReplyException("a number is longer than ten bytes");
        }

        public uint UInt32()
        {
            var value = Varint();
            return value <= uint.MaxValue ? (uint)value : throw new BadReplyException("a number is above its maximum");
        }

        public int Int32() => (int)Varint();

        public long Signed() => (long)Varint();

        public int ZigZag()
        {
            var value = UInt32();
            return (int)(value >> 1) ^ -(int)(value & 1);
        }

        public long ZigZag64()
        {
            var value = Varint();
            return (long)(value >> 1) ^ -(long)(value & 1);
        }

        public bool Bool() => Varint() != 0;

        public double Double()
        {
            var start = Pass(8);
            return BitConverter.Int64BitsToDouble(BinaryPrimitives.ReadInt64LittleEndian(span.Slice(start)));
        }

        /// <summary>Reads a length, and returns the index at which a block of this length ends.</summary>
        public int BlockEnd()
        {
            var length = UInt32();
            return length <= span.Length - At ? At + (int)length : throw TooShort();
        }

        /// <summary>Reads a length, and returns the bytes after it, which share the memory of the message.</summary>
        public ReadOnlyMemory<byte> Block()
        {
            var end = BlockEnd();
            var start = At;
            At = end;
            return memory.Slice(start, end - start);
        }

        public string Text() => Encoding.UTF8.GetString(Block().Span);

        /// <summary>Passes over a field that the schema does not have.</summary>
        public void Skip(uint tag)
        {
            switch (tag & 7)
            {
                case 0:
                    Varint();
                    break;
                case 1:
                    Pass(8);
                    break;
                case 2:
                    At = BlockEnd();
                    break;
                case 5:
                    Pass(4);
                    break;
                default:
                    throw new BadReplyException($"a field has the unknown kind {tag & 7}");
            }
        }

        /// <summary>Enters a message that may contain another one of its type.</summary>
        public void Enter()
        {
            if (++depth > DepthMax)
            {
                throw new BadReplyException("messages are nested too deeply");
            }
        }

        /// <summary>Leaves a message that may contain another one of its type.</summary>
        public void Leave() => depth--;

        public void RequireEnd(int end)
        {
            if (At != end)
            {
                throw new BadReplyException("a field is longer than its message");
            }
        }

        private byte Byte() => At < span.Length ? span[At++] : throw TooShort();

        /// <summary>Passes over bytes, and returns the index of the first.</summary>
        private int Pass(int count)
        {
            if (count > span.Length - At)
            {
                throw TooShort();
            }
            At += count;
            return At - count;
        }

        private static BadReplyException TooShort() => new BadReplyException("the message ends within a field");
    }
}
