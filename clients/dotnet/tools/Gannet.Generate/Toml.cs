using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Gannet.Generate
{
    /// <summary>A table of a TOML document, with its keys in the order of the document.</summary>
    public sealed class TomlTable
    {
        private readonly List<KeyValuePair<string, object>> entries = new List<KeyValuePair<string, object>>();

        /// <summary>Keys and values: string, long, double, bool, List of object, or TomlTable.</summary>
        public IReadOnlyList<KeyValuePair<string, object>> Entries => entries;

        /// <summary>Returns the value of a key, or null.</summary>
        public object? Find(string key)
        {
            foreach (var entry in entries)
            {
                if (entry.Key == key)
                {
                    return entry.Value;
                }
            }
            return null;
        }

        internal void Add(string key, object value)
        {
            if (Find(key) != null)
            {
                throw new FormatException($"cannot read TOML: the key {key} occurs twice; remove one");
            }
            entries.Add(new KeyValuePair<string, object>(key, value));
        }

        internal TomlTable Child(string key)
        {
            switch (Find(key))
            {
                case TomlTable table:
                    return table;
                case List<object> list:
                    return (TomlTable)list[list.Count - 1];
                default:
                    var created = new TomlTable();
                    Add(key, created);
                    return created;
            }
        }
    }

    /// <summary>
    /// Reads the part of TOML that the presets and scenarios use: tables, arrays of tables, inline tables, arrays,
    /// basic strings, numbers and booleans. Other syntax is an error.
    /// </summary>
    public sealed class Toml
    {
        private readonly string text;
        private int at;

        private Toml(string text)
        {
            this.text = text;
        }

        /// <summary>Returns the document. Throws FormatException with the line of what it cannot read.</summary>
        public static TomlTable Parse(string text) => new Toml(text).Document();

        private TomlTable Document()
        {
            var root = new TomlTable();
            var table = root;
            for (SkipSpace(true); at < text.Length; SkipSpace(true))
            {
                if (text[at] == '[')
                {
                    table = Header(root);
                }
                else
                {
                    Pair(table);
                }
                SkipSpace(false);
                if (at < text.Length && text[at] != '\n')
                {
                    throw Wrong("more than one item on a line");
                }
            }
            return root;
        }

        private TomlTable Header(TomlTable root)
        {
            at++;
            var isArray = text[at] == '[';
            at += isArray ? 1 : 0;
            var keys = Keys();
            Expect(isArray ? "]]" : "]");
            var table = root;
            for (var i = 0; i + 1 < keys.Count; i++)
            {
                table = table.Child(keys[i]);
            }
            var last = keys[keys.Count - 1];
            if (!isArray)
            {
                return table.Child(last);
            }
            var created = new TomlTable();
            if (table.Find(last) is List<object> list)
            {
                list.Add(created);
            }
            else
            {
                table.Add(last, new List<object> { created });
            }
            return created;
        }

        private void Pair(TomlTable table)
        {
            var keys = Keys();
            Expect("=");
            SkipSpace(false);
            for (var i = 0; i + 1 < keys.Count; i++)
            {
                table = table.Child(keys[i]);
            }
            table.Add(keys[keys.Count - 1], Value());
        }

        private List<string> Keys()
        {
            var keys = new List<string>();
            do
            {
                SkipSpace(false);
                keys.Add(Key());
                SkipSpace(false);
            }
            while (Take('.'));
            return keys;
        }

        private string Key()
        {
            if (Peek() == '"')
            {
                return String();
            }
            var start = at;
            while (char.IsLetterOrDigit(Peek()) || Peek() == '_' || Peek() == '-')
            {
                at++;
            }
            return at > start ? text.Substring(start, at - start) : throw Wrong("a key is missing");
        }

        private object Value()
        {
            switch (Peek())
            {
                case '"':
                    return String();
                case '[':
                    return Array();
                case '{':
                    return Inline();
                default:
                    return Word();
            }
        }

        private string String()
        {
            at++;
            var result = new StringBuilder();
            while (Peek() != '"')
            {
                var next = Peek();
                if (next == '\0' || next == '\n')
                {
                    throw Wrong("a string has no end");
                }
                at++;
                if (next == '\\')
                {
                    const string Escapes = "n\nt\tr\r\"\"\\\\";
                    var escape = Escapes.IndexOf(Peek());
                    next = escape >= 0 && escape % 2 == 0 ? Escapes[escape + 1] : throw Wrong("an escape is unknown");
                    at++;
                }
                result.Append(next);
            }
            at++;
            return result.ToString();
        }

        private List<object> Array()
        {
            at++;
            var values = new List<object>();
            for (SkipSpace(true); !Take(']'); SkipSpace(true))
            {
                values.Add(Value());
                SkipSpace(true);
                if (!Take(',') && Peek() != ']')
                {
                    throw Wrong("an array has no end");
                }
            }
            return values;
        }

        private TomlTable Inline()
        {
            at++;
            var table = new TomlTable();
            for (SkipSpace(false); !Take('}'); SkipSpace(false))
            {
                Pair(table);
                SkipSpace(false);
                if (!Take(',') && Peek() != '}')
                {
                    throw Wrong("an inline table has no end");
                }
            }
            return table;
        }

        private object Word()
        {
            var start = at;
            while (char.IsLetterOrDigit(Peek()) || "+-._".IndexOf(Peek()) >= 0)
            {
                at++;
            }
            var word = text.Substring(start, at - start).Replace("_", string.Empty);
            switch (word)
            {
                case "true":
                    return true;
                case "false":
                    return false;
            }
            if (long.TryParse(word, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var whole))
            {
                return whole;
            }
            if (double.TryParse(word, NumberStyles.Float, CultureInfo.InvariantCulture, out var number))
            {
                return number;
            }
            throw Wrong($"the value '{word}' is unknown");
        }

        private char Peek() => at < text.Length ? text[at] : '\0';

        private bool Take(char wanted)
        {
            if (Peek() != wanted)
            {
                return false;
            }
            at++;
            return true;
        }

        private void Expect(string wanted)
        {
            SkipSpace(false);
            foreach (var each in wanted)
            {
                if (!Take(each))
                {
                    throw Wrong($"'{wanted}' is missing");
                }
            }
        }

        /// <summary>Passes over spaces and comments, and line ends too if <paramref name="lines"/> is set.</summary>
        private void SkipSpace(bool lines)
        {
            for (; at < text.Length; at++)
            {
                if (text[at] == '#')
                {
                    while (at + 1 < text.Length && text[at + 1] != '\n')
                    {
                        at++;
                    }
                }
                else if (text[at] != ' ' && text[at] != '\t' && text[at] != '\r' && !(lines && text[at] == '\n'))
                {
                    return;
                }
            }
        }

        private FormatException Wrong(string cause)
        {
            var line = 1;
            for (var i = 0; i < at && i < text.Length; i++)
            {
                line += text[i] == '\n' ? 1 : 0;
            }
            return new FormatException($"cannot read TOML: line {line}: {cause}; correct the file");
        }
    }
}
