/**
 * The wire format of protocol buffers, as far as the schema uses it.
 *
 * A message is a sequence of fields. Each field begins with a tag, `number << 3 | kind`:
 *
 *     kind 0   varint: bits in groups of seven, the lowest first; bit 7 of a byte is set if another byte follows
 *     kind 1   eight bytes, little endian
 *     kind 2   a varint with a length, then as many bytes: bytes, text, messages, packed numbers
 *     kind 5   four bytes, little endian
 *
 * The generated code computes the size of a message first, allocates one buffer, and writes the fields into it.
 */

/** A key, value, field or element. A string is stored as UTF-8. */
export type Bytes = string | Uint8Array;

/** A 64-bit integer: a number if it is a safe integer, or a bigint. */
export type Integer = number | bigint;

/** A reply contradicts the schema. */
export class BadReply extends Error {}

const EMPTY = Buffer.alloc(0);
// More than twice the levels that the server allows in a value; each level has two messages.
const DEPTH_MAX = 64;

const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Returns the number of bytes of data. Throws TypeError unless it is a string or a Uint8Array, and RangeError if it is
 * a string with a lone surrogate: UTF-8 does not express it, and Node would store U+FFFD instead.
 */
export function byteLength(data: Bytes): number {
  if (typeof data === "string") {
    const length = Buffer.byteLength(data);
    // The bytes of ASCII are as many as its units.
    if (length === data.length || !LONE_SURROGATE.test(data)) return length;
    const remedy = "correct the text, or pass a Uint8Array";
    throw new RangeError(`cannot encode text: it has a lone surrogate, which UTF-8 does not express; ${remedy}`);
  }
  if (data instanceof Uint8Array) return data.length;
  const kind = data === null ? "null" : typeof data;
  throw new TypeError(`cannot encode ${kind}: it is neither a string nor a Uint8Array; convert it first`);
}

/** Returns the size of a varint of a safe integer that is not negative. */
export function sizeOfVarint(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x20_0000) return 3;
  if (value < 0x1000_0000) return 4;
  let size = 5;
  for (let rest = Math.floor(value / 0x8_0000_0000); rest > 0; rest = Math.floor(rest / 0x80)) size++;
  return size;
}

/** Returns the size of a varint of a 64-bit integer. */
export function sizeOfInteger(value: Integer): number {
  if (typeof value === "number" && value >= 0) return sizeOfVarint(value);
  let size = 1;
  for (let rest = BigInt.asUintN(64, BigInt(value)) >> 7n; rest > 0n; rest >>= 7n) size++;
  return size;
}

/** Returns the size of a length and as many bytes. */
export function sizeOfBlock(length: number): number {
  return sizeOfVarint(length) + length;
}

/** Returns a 32-bit integer with its sign in the lowest bit. */
export function zigzag(value: number): number {
  return ((value << 1) ^ (value >> 31)) >>> 0;
}

/** Returns a 64-bit integer with its sign in the lowest bit. */
export function zigzagBig(value: Integer): bigint {
  const wide = BigInt(value);
  return BigInt.asUintN(64, (wide << 1n) ^ (wide >> 63n));
}

/** Writes fields into a buffer that is as long as the message. */
export class Writer {
  readonly buffer: Buffer;
  private at = 0;

  constructor(size: number) {
    this.buffer = Buffer.allocUnsafe(size);
  }

  /** Writes a safe integer that is not negative. */
  varint(value: number): void {
    let rest = value;
    while (rest >= 0x8000_0000) {
      this.buffer[this.at++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    while (rest >= 0x80) {
      this.buffer[this.at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.buffer[this.at++] = rest;
  }

  /** Writes a 64-bit integer; a negative one as its complement. */
  integer(value: Integer): void {
    if (typeof value === "number" && value >= 0) return this.varint(value);
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest >= 0x80n; rest >>= 7n) this.buffer[this.at++] = Number(rest & 0x7fn) | 0x80;
    this.buffer[this.at++] = Number(rest);
  }

  /** Writes a length and the bytes of data. */
  bytes(data: Bytes): void {
    const length = byteLength(data);
    this.varint(length);
    if (typeof data === "string") this.buffer.write(data, this.at, length, "utf8");
    else this.buffer.set(data, this.at);
    this.at += length;
  }

  double(value: number): void {
    this.at = this.buffer.writeDoubleLE(value, this.at);
  }
}

/** Reads fields of a message. Throws BadReply if the bytes end too early. */
export class Reader {
  at = 0;
  readonly end: number;
  private depth = 0;

  constructor(private readonly buffer: Buffer) {
    this.end = buffer.length;
  }

  private byte(): number {
    const byte = this.buffer[this.at++];
    if (byte === undefined) throw new BadReply("the message ends within a field");
    return byte;
  }

  /** Reads a varint below 2^53. */
  varint(): number {
    let value = this.byte();
    if (value < 0x80) return value;
    value &= 0x7f;
    for (let factor = 0x80; factor <= 2 ** 49; factor *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new BadReply("a number is above its maximum");
  }

  /** Reads an unsigned 64-bit integer. */
  unsigned(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new BadReply("a number is longer than ten bytes");
  }

  /** Reads a signed 64-bit integer. */
  signed(): bigint {
    return BigInt.asIntN(64, this.unsigned());
  }

  /** Reads a signed 64-bit integer whose sign is in the lowest bit. */
  zigzagBig(): bigint {
    const value = this.unsigned();
    return (value >> 1n) ^ -(value & 1n);
  }

  /** Counts one more level of messages within messages. */
  enter(): void {
    if (++this.depth > DEPTH_MAX) throw new BadReply(`messages are nested in more than ${DEPTH_MAX} levels`);
  }

  leave(): void {
    this.depth--;
  }

  bool(): boolean {
    return this.unsigned() !== 0n;
  }

  double(): number {
    this.at += 8;
    if (this.at > this.end) throw new BadReply("the message ends within a field");
    return this.buffer.readDoubleLE(this.at - 8);
  }

  /** Reads a length, and returns the place at which a block of this length ends. */
  block(): number {
    const length = this.varint();
    if (length > this.end - this.at) throw new BadReply("the message ends within a field");
    return this.at + length;
  }

  /** Reads a length, and returns the bytes after it, which share the memory of the message. */
  bytes(): Buffer {
    const end = this.block();
    const start = this.at;
    this.at = end;
    return start === end ? EMPTY : this.buffer.subarray(start, end);
  }

  text(): string {
    return this.bytes().toString("utf8");
  }

  /** Passes over a field that the schema does not have. */
  skip(tag: number): void {
    const kind = tag & 7;
    if (kind === 0) this.unsigned();
    else if (kind === 1) this.at += 8;
    else if (kind === 2) this.at = this.block();
    else if (kind === 5) this.at += 4;
    else throw new BadReply(`a field has the unknown kind ${kind}`);
    if (this.at > this.end) throw new BadReply("the message ends within a field");
  }
}
