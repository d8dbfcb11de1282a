using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.RegularExpressions;

namespace Gannet.Generate
{
    /// <summary>A field of a message.</summary>
    public sealed class Field
    {
        /// <summary>The name in the schema.</summary>
        public string Name { get; set; } = string.Empty;

        /// <summary>The type in the schema, such as <c>bytes</c> or the full name of a message.</summary>
        public string Type { get; set; } = string.Empty;

        /// <summary>The number of the field on the wire.</summary>
        public int Number { get; set; }

        /// <summary>True if the field may occur several times.</summary>
        public bool Repeated { get; set; }

        /// <summary>True if the message may lack the field: it is <c>optional</c>, or belongs to a oneof.</summary>
        public bool Optional { get; set; }
    }

    /// <summary>A message, with names of nested messages written together: <c>GetReplyFound</c>.</summary>
    public sealed class Message
    {
        /// <summary>The name of the generated class.</summary>
        public string Name { get; set; } = string.Empty;

        /// <summary>The fields in the order of the schema.</summary>
        public List<Field> Fields { get; } = new List<Field>();
    }

    /// <summary>A call of a service.</summary>
    public sealed class Method
    {
        /// <summary>The name of the service.</summary>
        public string Service { get; set; } = string.Empty;

        /// <summary>The name of the call.</summary>
        public string Name { get; set; } = string.Empty;

        /// <summary>The type of the request.</summary>
        public string Request { get; set; } = string.Empty;

        /// <summary>The type of the replies.</summary>
        public string Reply { get; set; } = string.Empty;

        /// <summary>True if the server sends several replies.</summary>
        public bool Streams { get; set; }
    }

    /// <summary>
    /// The parts of proto3 files of one package that the generator uses. Syntax that it does not know is an error.
    /// </summary>
    public sealed class Schema
    {
        private static readonly Regex Words = new Regex(@"//[^\n]*|""[^""]*""|[\w.]+|\S", RegexOptions.Compiled);
        private List<string> words = new List<string>();
        private int at;

        /// <summary>Parses all files of a package.</summary>
        public Schema(IEnumerable<string> texts)
        {
            foreach (var text in texts)
            {
                words = Words.Matches(text).Select(match => match.Value).Where(word => !word.StartsWith("//")).ToList();
                for (at = 0; at < words.Count;)
                {
                    TopLevel();
                }
            }
            foreach (var (field, scope) in unresolved)
            {
                field.Type = Resolve(field.Type, scope);
            }
        }

        /// <summary>The package, such as <c>gannet.v1</c>.</summary>
        public string Package { get; private set; } = string.Empty;

        /// <summary>All messages by name.</summary>
        public Dictionary<string, Message> Messages { get; } = new Dictionary<string, Message>();

        /// <summary>The values of all enums by name.</summary>
        public Dictionary<string, List<KeyValuePair<string, int>>> Enums { get; } =
            new Dictionary<string, List<KeyValuePair<string, int>>>();

        /// <summary>All calls.</summary>
        public List<Method> Methods { get; } = new List<Method>();

        private readonly List<(Field, string[])> unresolved = new List<(Field, string[])>();

        private string Next() =>
            at < words.Count ? words[at++] : throw new FormatException("the schema ends too early");

        private void Expect(string wanted)
        {
            var word = Next();
            if (word != wanted)
            {
                throw new FormatException(
                    $"cannot read the schema: '{word}' instead of '{wanted}'; extend the generator");
            }
        }

        private void TopLevel()
        {
            var word = Next();
            switch (word)
            {
                case "package":
                    var package = Next();
                    if (Package.Length > 0 && package != Package)
                    {
                        throw new FormatException(
                            $"cannot read the schema: it has packages {Package} and {package}; extend the generator");
                    }
                    Package = package;
                    Expect(";");
                    break;
                // All files of the package are read anyway.
                case "import":
                case "syntax":
                case "option":
                    while (Next() != ";")
                    {
                    }
                    break;
                case "message":
                    ReadMessage(new string[0]);
                    break;
                case "enum":
                    ReadEnum(new string[0]);
                    break;
                case "service":
                    ReadService();
                    break;
                default:
                    throw new FormatException($"cannot read the schema: '{word}' is unknown; extend the generator");
            }
        }

        private void ReadMessage(string[] outer)
        {
            var scope = outer.Append(Next()).ToArray();
            var message = new Message { Name = string.Concat(scope) };
            Messages.Add(message.Name, message);
            Expect("{");
            var inOneof = false;
            for (var word = Next(); word != "}" || inOneof; word = Next())
            {
                switch (word)
                {
                    case "message":
                        ReadMessage(scope);
                        break;
                    case "enum":
                        ReadEnum(scope);
                        break;
                    case "oneof":
                        Next();
                        Expect("{");
                        inOneof = true;
                        break;
                    case "}":
                        inOneof = false;
                        break;
                    default:
                        ReadField(message, scope, word, inOneof);
                        break;
                }
            }
        }

        private void ReadField(Message message, string[] scope, string word, bool inOneof)
        {
            var field = new Field { Repeated = word == "repeated", Optional = inOneof || word == "optional" };
            field.Type = field.Repeated || word == "optional" ? Next() : word;
            field.Name = Next();
            Expect("=");
            field.Number = int.Parse(Next());
            Expect(";");
            message.Fields.Add(field);
            unresolved.Add((field, scope));
        }

        private void ReadEnum(string[] scope)
        {
            var values = new List<KeyValuePair<string, int>>();
            Enums.Add(string.Concat(scope) + Next(), values);
            Expect("{");
            for (var word = Next(); word != "}"; word = Next())
            {
                Expect("=");
                values.Add(new KeyValuePair<string, int>(word, int.Parse(Next())));
                Expect(";");
            }
        }

        private void ReadService()
        {
            var service = Next();
            Expect("{");
            for (var word = Next(); word != "}"; word = Next())
            {
                var method = new Method { Service = service, Name = Next() };
                Expect("(");
                method.Request = Next();
                Expect(")");
                Expect("returns");
                Expect("(");
                var type = Next();
                method.Streams = type == "stream";
                method.Reply = method.Streams ? Next() : type;
                Expect(")");
                Expect(";");
                Methods.Add(method);
            }
        }

        /// <summary>
        /// Returns the full name of a type that a field of the message <paramref name="scope"/> names.
        /// </summary>
        private string Resolve(string type, string[] scope)
        {
            if (Generator.IsScalar(type))
            {
                return type;
            }
            for (var outer = scope.Length; outer >= 0; outer--)
            {
                var full = string.Concat(scope.Take(outer)) + type.Replace(".", string.Empty);
                if (Messages.ContainsKey(full) || Enums.ContainsKey(full))
                {
                    return full;
                }
            }
            throw new FormatException($"cannot find type {type} of {string.Join(".", scope)}; correct the schema");
        }

        /// <summary>Returns true if a message may contain another one of its own type.</summary>
        public bool IsRecursive(Message message) => message.Fields
            .Where(field => Messages.ContainsKey(field.Type))
            .Any(field => Closure(new[] { field.Type }).Contains(message));

        /// <summary>Returns these messages and those that they contain, parts before their wholes.</summary>
        public List<Message> Closure(IEnumerable<string> names)
        {
            var found = new List<Message>();
            // Messages may contain themselves.
            var visited = new HashSet<string>();
            void Visit(string name)
            {
                if (!visited.Add(name))
                {
                    return;
                }
                var message = Messages[name];
                foreach (var field in message.Fields.Where(field => Messages.ContainsKey(field.Type)))
                {
                    Visit(field.Type);
                }
                found.Add(message);
            }

            foreach (var name in names)
            {
                Visit(name);
            }
            return found;
        }
    }
}
