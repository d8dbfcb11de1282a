using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Reflection;
using System.Text.RegularExpressions;
using System.Threading.Tasks;
using Gannet.Client.Protocol;
using Gannet.Generate;

namespace Gannet.Client.Tests
{
    /// <summary>
    /// Generated files, presets, the wire format, the package, and the programs of README and examples.
    /// </summary>
    internal static class PackageTests
    {
        // The SDK builds; the runtime of this process runs what it has built.
        private static readonly string Sdk = Path.Combine(Files.Library, "scripts/dotnet");
        private static readonly string Host = Process.GetCurrentProcess().MainModule!.FileName!;
        private static readonly bool IsOfSdk = Environment.Version.Major == 3;

        private static async Task<(int Status, string Output)> RunAsync(
            string program, string folder, params string[] arguments)
        {
            var start = new ProcessStartInfo(program)
            {
                WorkingDirectory = folder,
                RedirectStandardOutput = true,
                RedirectStandardError = true,
            };
            start.Environment["GANNET_TOKEN"] = "token";
            foreach (var argument in arguments)
            {
                start.ArgumentList.Add(argument);
            }
            using var process = Process.Start(start)!;
            var error = process.StandardError.ReadToEndAsync();
            var output = await process.StandardOutput.ReadToEndAsync() + await error;
            Assert.True(process.WaitForExit(60_000), $"{program} has not ended");
            return (process.ExitCode, output);
        }

        private static async Task<string> OutputAsync(string program, string folder, params string[] arguments)
        {
            var (status, output) = await RunAsync(program, folder, arguments);
            Assert.True(status == 0, $"{program} {string.Join(" ", arguments)}: status {status}: {output}");
            return output;
        }

        private static string Built(string folder, string name) =>
            Path.Combine(Files.Library, folder, name, "bin/Debug/netcoreapp3.1", name + ".dll");

        [Test("the generated files are those of their sources")]
        private static void Generated()
        {
            foreach (var file in Generator.Files(Files.Repository))
            {
                var path = Path.Combine(Files.Library, file.Key);
                Assert.True(File.ReadAllText(path) == file.Value, $"{path} is not current; run the generator");
            }
        }

        [Test("presets have the values of clients/presets.toml")]
        private static void Presets()
        {
            var document = Toml.Parse(File.ReadAllText(Path.Combine(Files.Repository, "clients/presets.toml")));
            var region = (TomlTable)document.Find("InRegion")!;
            var presets = new (string Name, object? Table, Func<Configuration> V1, Func<Configuration> Latest)[]
            {
                ("Laptop", document.Find("Laptop"), Configurations.Laptop.V1, Configurations.Laptop.Latest),
                (
                    "InRegion.Default",
                    region.Find("Default"),
                    Configurations.InRegion.Default.V1,
                    Configurations.InRegion.Default.Latest),
                (
                    "InRegion.LowLatency",
                    region.Find("LowLatency"),
                    Configurations.InRegion.LowLatency.V1,
                    Configurations.InRegion.LowLatency.Latest),
                ("Lambda", document.Find("Lambda"), Configurations.Lambda.V1, Configurations.Lambda.Latest),
            };
            Assert.Equal(3, document.Entries.Count);
            Assert.Equal(2, region.Entries.Count);
            foreach (var (name, table, v1, latest) in presets)
            {
                var versions = (TomlTable)table!;
                SameValues(name, (TomlTable)versions.Find("v1")!, v1());
                SameValues(name, (TomlTable)versions.Find((string)versions.Find("latest")!)!, latest());
                SameValues(name, (TomlTable)versions.Find("v1")!, Configurations.Named(name + ".v1"));
                SameValues(
                    name, (TomlTable)versions.Find((string)versions.Find("latest")!)!, Configurations.Named(name));
            }
            foreach (var name in new[] { "Desktop", "Laptop.v9", "InRegion", string.Empty })
            {
                Assert.Contains(
                    "cannot find preset", Assert.Throws<ArgumentException>(() => Configurations.Named(name)).Message);
            }
        }

        private static void SameValues(string name, TomlTable values, Configuration configuration)
        {
            Assert.Equal("fixed_count", values.Find("retry_strategy"));
            Assert.Equal(values.Find("retry_count"), Assert.Is<FixedCount>(configuration.RetryStrategy).Count);
            Assert.Equal(values.Find("retry_budget_percent"), configuration.RetryBudget.Percent);
            Assert.Equal(values.Find("retry_budget_burst"), configuration.RetryBudget.Burst);
            Assert.True(
                configuration.HedgingDelay == null && configuration.Middleware.Count == 0 && !configuration.Metrics,
                name);
            var compared = 0;
            foreach (var value in values.Entries.Where(each => !each.Key.StartsWith("retry_")))
            {
                var pascal = string.Concat(
                    value.Key.Split('_').Select(part => char.ToUpperInvariant(part[0]) + part.Substring(1)));
                var property = typeof(Configuration).GetProperty(pascal)
                    ?? typeof(Configuration).GetProperty(
                        Regex.Replace(pascal.Replace("DelayMinMs", "DelayMin"), "Ms$", string.Empty))
                    ?? throw new FailedException($"{name}: {value.Key} has no property");
                var actual = property.GetValue(configuration);
                Assert.Equal(
                    value.Value, actual is TimeSpan time ? time.TotalMilliseconds : actual, $"{name} {value.Key}");
                compared++;
            }
            Assert.Equal(13, compared);
        }

        [Test("configurations are immutable and checked")]
        private static void ConfigurationsAreChecked()
        {
            var preset = Configurations.InRegion.LowLatency.V1();
            var mine = preset.WithDeadline(TimeSpan.FromSeconds(2)).WithRequestsInFlightMax(150).WithKeepalive(
                TimeSpan.Zero);
            Assert.Equal(
                (2000.0, 2, TimeSpan.Zero), (mine.Deadline.TotalMilliseconds, mine.ConnectionsMax, mine.KeepaliveTime));
            Assert.Equal(
                (500.0, 1, 5.0),
                (preset.Deadline.TotalMilliseconds, preset.ConnectionsMax, preset.KeepaliveTime.TotalSeconds));
            var own = new Configuration(TimeSpan.FromMilliseconds(250), 50);
            Assert.Equal((250.0, 50, 1), (own.Deadline.TotalMilliseconds, own.RequestsInFlightMax, own.ConnectionsMax));
            var zero = TimeSpan.Zero;
            foreach (var wrong in new Action[]
            {
                () => preset.WithRequestsInFlightMax(0), () => preset.WithDeadline(zero), () => preset.WithDeadline(
                    -TimeSpan.FromSeconds(1)),
                () => preset.WithDeadline(TimeSpan.MaxValue), () => preset.WithRequestsQueuedMax(-1),
                () => preset.WithStreamsPerConnection(0), () => preset.WithHedging(-TimeSpan.FromSeconds(1)),
                () => preset.WithRequestsInFlightMax(100_001), () => preset.WithRequestsInFlightMax(int.MaxValue),
                () => preset.WithConnectTimeout(zero), () => preset.WithMessageBytesMax(0),
                () => preset.WithKeepalive(zero, zero), () => preset.WithReconnectDelay(
                    TimeSpan.FromSeconds(2), TimeSpan.FromSeconds(1)),
                () => new Configuration(zero, 1),
            })
            {
                Assert.Contains("; give ", Assert.Throws<ArgumentOutOfRangeException>(wrong).Message);
            }
            Assert.Throws<ArgumentNullException>(() => preset.WithRetryStrategy(null!));
        }

        [Test("the parser of TOML refuses what it does not know")]
        private static void TomlErrors()
        {
            foreach (
                var text in new[]
                {
                    "a", "a = ", "a = 'x'", "a = 1 b = 2", "[a", "a = [1", "a = {b = 1", "a = \"x", "a = 1\na = 2",
                    "a = 1979-05-27",
                })
            {
                Assert.Contains("cannot read TOML", Assert.Throws<FormatException>(() => Toml.Parse(text)).Message);
            }
            var table = Toml.Parse(
                "[a.b]\nc = 1_000 # x\nd = [ 1.5,\n  true, ]\n[[e]]\nf = { g = \"a\\\"b\" }\n[[e]]\n");
            var inner = (TomlTable)((TomlTable)table.Find("a")!).Find("b")!;
            Assert.Equal(1000L, inner.Find("c"));
            Assert.Equal(new object[] { 1.5, true }, inner.Find("d"));
            Assert.Equal(2, ((List<object>)table.Find("e")!).Count);
        }

        [Test("the wire format is that of protocol buffers")]
        private static void WireFormat()
        {
            // The bytes were computed by another implementation, google.protobuf for Python.
            var requests = new (IRequest Request, string Hex)[]
            {
                (new V1.Requests.SetRequest { Key =
                    "k", Value = new byte[] { 0, 255 }, TtlMs = 300 }, "0a016b120200ff18ac02"),
                (new V1.Requests.IncrementRequest { Key =
                    "k", Amount = -1, TtlMs = 1 }, "0a016b10ffffffffffffffffff011801"),
                (new V1.Requests.ListFetchRequest { Key =
                    "k", First = -2, UnboundedEnd = new V1.Requests.Condition() }, "0a016b18032200"),
                (new V1.Requests.KeysExistRequest { Keys = new Bytes[] { "a", "ü" } }, "0a01610a02c3bc"),
                (
                    new V1.Requests.SortedSetPutRequest
                    {
                        Key = "z",
                        Elements = new[] { new V1.Requests.ScoredElement { Value = "a", Score = 1.5 } },
                        TtlMs = 1UL << 63,
                        RefreshTtl = true,
                    },
                    "0a017a120c0a016111000000000000f83f18808080808080808080012001"),
            };
            requests = requests.Concat(new (IRequest, string)[]
            {
                // A field of 0 that is optional is written, and one that is absent is not.
                (
                    new V1.Requests.RecordDeleteRequest { Key = "k", IfRevision = 0 }, "0a016b1000"),
                (
                    new V1.Requests.Bin
                    {
                        Name = "b",
                        Value = new V1.Requests.BinValue
                        {
                            List = new V1.Requests.BinList
                            {
                                Values = new[]
                                {
                                    new V1.Requests.BinValue { Integer = long.MinValue },
                                    new V1.Requests.BinValue { Integer = -3 },
                                },
                            },
                        },
                    },
                    "0a01621213" + "3211" + "0a0b08ffffffffffffffffff01" + "0a020805"),
            }).ToArray();
            foreach (var (request, hex) in requests)
            {
                var frame = Wire.Frame(request);
                Assert.Equal(hex, BitConverter.ToString(frame, 5).Replace("-", string.Empty).ToLowerInvariant());
                Assert.Equal(new byte[] { 0, 0, 0, 0, (byte)(hex.Length / 2) }, frame.Take(5).ToArray());
            }
            // Packed and single booleans, a field that the schema does not have, and a negative number.
            var exist = Read("0a030100017a0101" + "0801", V1.Replies.KeysExistReply.Read);
            Assert.Equal(new[] { true, false, true, true }, exist.Exists);
            Assert.Equal(-1L, Read("08ffffffffffffffffff01", V1.Replies.IncrementReply.Read).Value);
            Assert.Equal("a", Read("0a030a0161", V1.Replies.ListCachesReply.Read).Caches[0].Name);
            Assert.Equal(1.5, Read("09000000000000f83f", V1.Replies.ScoreReply.Read).Score);
            Assert.Equal(
                new long?[] { long.MinValue, -3 },
                Read("0a0b08ffffffffffffffffff01" + "0a020805", V1.Replies.BinList.Read).Values
                    .Select(each => each.Integer));
            Assert.Equal(null, Read("0802", V1.Replies.LeaseGetReply.Read).Value);
            Assert.Equal(0, Read("08021200", V1.Replies.LeaseGetReply.Read).Value!.Value.Length);
        }

        private delegate T Decoder<out T>(ref Reader input, int end);

        private static T Read<T>(string hex, Decoder<T> decode)
        {
            var bytes = Enumerable.Range(0, hex.Length / 2)
                .Select(at => Convert.ToByte(hex.Substring(2 * at, 2), 16)).ToArray();
            var input = new Reader(bytes);
            return decode(ref input, input.End);
        }

        [Test("random bytes are read or are a bad reply")]
        private static void RandomBytes()
        {
            var random = new Random(7);
            var (read, refused) = (0, 0);
            for (var round = 0; round < 20_000; round++)
            {
                var bytes = Enumerable.Range(0, random.Next(24))
                    .Select(_ => random.Next(2) == 0 ? (byte)random.Next(256)
                        : new byte[] { 10, 2, 8, 18, 0 }[random.Next(5)]).ToArray();
                try
                {
                    var input = new Reader(bytes);
                    switch (round % 4)
                    {
                        case 0:
                            V1.Replies.GetReply.Read(ref input, input.End);
                            break;
                        case 1:
                            V1.Replies.SortedSetFetchReply.Read(ref input, input.End);
                            break;
                        case 2:
                            V1.Replies.KeysExistReply.Read(ref input, input.End);
                            break;
                        default:
                            V1.Replies.DictionaryGetReply.Read(ref input, input.End);
                            break;
                    }
                    read++;
                }
                catch (BadReplyException)
                {
                    refused++;
                }
            }
            Assert.True(read > 500 && refused > 500, $"{read} {refused}");
        }

        [Test("a reply that is nested too deeply is a bad reply, and exhausts no stack")]
        private static void DeepReply()
        {
            byte[] Nested(int levels)
            {
                var inner = new byte[] { 8, 2 };
                for (var level = 0; level < levels; level++)
                {
                    // A value that is a list, which has one value.
                    inner = Block(50, Block(10, inner));
                }
                return inner;
            }

            byte[] Block(byte tag, byte[] inner)
            {
                var size = new byte[Wire.SizeOfVarint((uint)inner.Length)];
                new Writer(size).Varint((uint)inner.Length);
                return new[] { tag }.Concat(size).Concat(inner).ToArray();
            }

            V1.Replies.BinValue Value(int levels)
            {
                var input = new Reader(Nested(levels));
                return V1.Replies.BinValue.Read(ref input, input.End);
            }

            Assert.Equal(1L, Value(0).Integer);
            Assert.Equal(1L, Value(8).List!.Values[0].List!.Values[0].List!.Values.Count);
            Assert.Contains("too deeply", Assert.Throws<BadReplyException>(() => Value(500)).Message);
        }

        [Test("bodies that are cut into pieces of any size have the same messages")]
        private static async Task Pieces()
        {
            var random = new Random(3);
            for (var round = 0; round < 200; round++)
            {
                var messages = Enumerable.Range(0, random.Next(1, 6))
                    .Select(_ => new byte[random.Next(random.Next(2) == 0 ? 20 : 20_000)]).ToList();
                messages.ForEach(random.NextBytes);
                var body = messages.SelectMany(message =>
                    new byte[] { 0, 0, (byte)(message.Length >> 16), (byte)(message.Length >> 8), (byte)message.Length }
                        .Concat(message)).ToArray();
                var replies = new Replies(20_000);
                await replies.ReadAsync(new PieceStream(body, random), default);
                Assert.Equal(null, replies.Problem);
                Assert.Equal(messages.Count, replies.Messages.Count);
                Assert.True(
                    messages.Zip(replies.Messages, (sent, got) => got.Span.SequenceEqual(sent)).All(each => each),
                    $"round {round}");
                var cut = new Replies(20_000);
                await cut.ReadAsync(new PieceStream(body.Take(body.Length - 1).ToArray(), random), default);
                Assert.True(cut.Problem != null || body.Length == 0, "a cut body is refused");
            }
            var compressed = new Replies(100);
            await compressed.ReadAsync(new PieceStream(new byte[] { 1, 0, 0, 0, 0 }, random), default);
            Assert.Contains("compressed", compressed.Problem!);
            var endless = new Replies(100);
            await endless.ReadAsync(new PieceStream(new byte[] { 0, 255, 255, 255, 255 }, random), default);
            Assert.True(endless.IsTooLong, "the length is above the maximum");
        }

        private sealed class PieceStream : MemoryStream
        {
            private readonly Random random;

            public PieceStream(byte[] bytes, Random random)
                : base(bytes)
            {
                this.random = random;
            }

            public override ValueTask<int> ReadAsync(
                Memory<byte> buffer, System.Threading.CancellationToken cancellation = default) =>
                base.ReadAsync(buffer.Slice(0, Math.Min(buffer.Length, random.Next(1, 3000))), cancellation);
        }

        [Test("the public API has no member without documentation, and the package its files and metadata")]
        private static async Task Package()
        {
            if (!IsOfSdk)
            {
                return;
            }
            var folder = Files.NewFolder("package");
            await OutputAsync(
                Sdk, Files.Library, "pack", "src/Gannet.Client", "--no-build", "--nologo", "-v", "quiet", "-o", folder);
            var version = typeof(CacheClient).Assembly.GetName().Version!.ToString(3);
            using (var package = ZipFile.OpenRead(Path.Combine(folder, $"Gannet.Client.{version}.nupkg")))
            {
                var names = package.Entries.Select(entry => entry.FullName).ToList();
                foreach (
                    var name in new[]
                    {
                        "README.md", "LICENSE", "lib/netstandard2.1/Gannet.Client.dll",
                        "lib/netstandard2.1/Gannet.Client.xml",
                    })
                {
                    Assert.True(names.Contains(name), $"{name} is missing: {string.Join(" ", names)}");
                }
                using var reader = new StreamReader(package.GetEntry("Gannet.Client.nuspec")!.Open());
                var text = await reader.ReadToEndAsync();
                Assert.Contains("<license type=\"expression\">Apache-2.0</license>", text);
                Assert.Contains("<id>Gannet.Client</id>", text);
                Assert.Contains("<description>", text);
                Assert.True(!text.Contains("<dependency "), "the library needs no package");
            }
            Directory.Delete(folder, true);
            var documented = File.ReadAllText(Path.ChangeExtension(typeof(CacheClient).Assembly.Location, "xml"));
            foreach (var type in typeof(CacheClient).Assembly.GetExportedTypes())
            {
                Assert.Contains($"\"T:{type.FullName!.Replace('+', '.')}\"", documented);
            }
        }

        private const string Choice = @"
using System.Reflection;
using System.Threading.Tasks;

internal static class Choice
{
    private static Task Main(string[] arguments) => (Task)Assembly.GetExecutingAssembly().GetType(arguments[0])!
        .GetMethod(""Main"", BindingFlags.Static | BindingFlags.NonPublic)!.Invoke(null, null)!;
}
";

        [Test("the programs of the README compile and run")]
        private static async Task Readme()
        {
            if (!IsOfSdk)
            {
                return;
            }
            var server = await Servers.SharedAsync();
            var text = File.ReadAllText(Path.Combine(Files.Library, "README.md"));
            var programs = Regex.Matches(text, "```csharp\n(.*?)```", RegexOptions.Singleline)
                .Select(match => match.Groups[1].Value).ToList();
            Assert.True(programs.Count >= 4, $"{programs.Count} programs");
            var project = Regex.Match(text, "```xml\n(.*?)```", RegexOptions.Singleline).Groups[1].Value;
            Assert.Contains("Gannet.Client", project);
            Assert.Contains("<TargetFramework>net8.0</TargetFramework>", project);
            // The SDK of the tests is older than that of most users.
            project = project.Replace("net8.0", "netcoreapp3.1");
            // As an option of the command, it would be one of the library too, whose compiler refuses it.
            project = project.Replace(
                "  </PropertyGroup>", "  <StartupObject>Choice</StartupObject>\n  </PropertyGroup>");
            var library = Path.Combine(Files.Library, "src/Gannet.Client/Gannet.Client.csproj");
            var folder = Files.NewFolder("readme");
            File.Copy(Path.Combine(Files.Library, "nuget.config"), Path.Combine(folder, "nuget.config"));
            File.WriteAllText(
                Path.Combine(folder, "session.csproj"),
                Regex.Replace(project, "Include=\"[^\"]*\"", $"Include=\"{library}\""));
            // All programs are in one project, which is faster: each in a namespace of its own.
            for (var number = 0; number < programs.Count; number++)
            {
                var program = programs[number].Replace("127.0.0.1:7000", server.Address);
                var usings = string.Concat(
                    Regex.Matches(program, "^using [\\w.]+;\n", RegexOptions.Multiline).Select(match => match.Value));
                var rest = Regex.Replace(program, "^using [\\w.]+;\n", string.Empty, RegexOptions.Multiline);
                File.WriteAllText(
                    Path.Combine(folder, $"Program{number}.cs"),
                    $"{usings}namespace Program{number}\n{{\n{rest}\n}}\n");
            }
            // One build instead of one for each program: an argument selects the program.
            File.WriteAllText(Path.Combine(folder, "Choice.cs"), Choice);
            await OutputAsync(Sdk, folder, "build", "--nologo", "-v", "quiet", "-o", "out");
            var nearCaches = 0;
            for (var number = 0; number < programs.Count; number++)
            {
                var type = $"Program{number}.{Regex.Match(programs[number], "class (\\w+)\n").Groups[1].Value}";
                var output = await OutputAsync(Host, folder, "out/session.dll", type);
                Assert.True(number == 0 ? output.Trim() == "hello" : output.Length > 0, $"program {number}: {output}");
                if (programs[number].Contains("WithNearCache"))
                {
                    Assert.Equal("1 hits, 1 misses, 0 invalidations", output.Trim());
                    nearCaches++;
                }
            }
            Assert.Equal(1, nearCaches);
            Directory.Delete(folder, true);
        }

        [Test("the examples run")]
        private static async Task Examples()
        {
            var server = await Servers.SharedAsync();
            var names =
                Directory.GetDirectories(Path.Combine(Files.Library, "examples")).Select(Path.GetFileName).ToList();
            Assert.Equal(4, names.Count);
            foreach (var name in names)
            {
                Assert.True(
                    (await OutputAsync(Host, Files.Library, Built("examples", name!), server.Address)).Length > 0,
                    name!);
            }
        }

        [Test("the load program reports requests, and compares the library with the HTTP client")]
        private static async Task Bench()
        {
            var server = await Servers.SharedAsync();
            var bench = Built("bench", "Gannet.Bench");
            foreach (var client in new[] { "sdk", "bare" })
            {
                var report = await OutputAsync(
                    Host,
                    Files.Library,
                    new[] { bench, "--address", server.Address, "--seconds", "0.3", "--client", client, "--concurrency", "4" });
                Assert.True(Number(report, "requests") > 10 && Number(report, "cpu_us_per_request") > 0, report);
                Assert.True(
                    0 < Number(report, "p50_us") && Number(report, "p50_us") <= Number(report, "p999_us"), report);
                Assert.Equal(0.0, Number(report, "errors"));
            }
            var both = await OutputAsync(
                Host,
                Files.Library,
                new[] { bench, "--address", server.Address, "--seconds", "0.2", "--compare", "2" });
            Assert.True(Number(both, "cpu_ratio") > 0.1, both);
            var (status, output) = await RunAsync(
                Host, Files.Library, bench, "--address", $"127.0.0.1:{server.RespPort}");
            Assert.Equal(1, status);
            Assert.Contains("does not speak gRPC", output);
            Assert.Equal(1, (await RunAsync(Host, Files.Library, bench, "--addres")).Status);
        }

        private static double Number(string report, string name) => double.Parse(
            Regex.Match(report, $"\"{name}\": ([\\d.]+)").Groups[1].Value,
            System.Globalization.CultureInfo.InvariantCulture);
    }
}
