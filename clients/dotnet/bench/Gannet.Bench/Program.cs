using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client;

namespace Gannet.Bench
{
    /// <summary>The figures of one run.</summary>
    internal sealed class Report
    {
        public long Requests { get; set; }

        public long Errors { get; set; }

        public int Connections { get; set; }

        public double Seconds { get; set; }

        public double CpuSeconds { get; set; }

        public double P50Us { get; set; }

        public double P99Us { get; set; }

        public double P999Us { get; set; }

        public double RequestsPerSecond => Requests / Seconds;

        public double CpuUsPerRequest => CpuSeconds * 1e6 / Math.Max(1, Requests);
    }

    internal static class Program
    {
        private const int BatchKeys = 1000;

        // Keys that are drawn in advance, so that the measured loop draws none.
        private const int Choices = 100_000;

        private static async Task<int> Main(string[] arguments)
        {
            if (arguments.Contains("--help"))
            {
                Console.Write(Options.Usage);
                return 0;
            }
            try
            {
                var options = new Options(arguments);
                var configuration = Configurations.Named(options.Preset);
                if (options.InFlightMax > 0)
                {
                    configuration = configuration.WithRequestsInFlightMax(options.InFlightMax);
                }
                var load = new Load(options);
                await load.PrepareAsync();
                return options.Compare > 0
                    ? await CompareAsync(options, configuration, load)
                    : await RunAsync(options, configuration, load);
            }
            catch (Exception exception) when (exception is ArgumentException || exception is CacheException)
            {
                Console.Error.WriteLine(exception.Message);
                return 1;
            }
        }

        private static async Task<int> RunAsync(Options options, Configuration configuration, Load load)
        {
            var report = await load.RunAsync(options.Client, configuration);
            Print(Head(options, options.Client).Concat(Figures(report)).Append(("errors", report.Errors)));
            return report.Errors == 0 ? 0 : 1;
        }

        /// <summary>Measures both in turn, and prints the medians of both and the ratio of their CPU time.</summary>
        private static async Task<int> CompareAsync(Options options, Configuration configuration, Load load)
        {
            var reports =
                new Dictionary<string, List<Report>> { ["bare"] = new List<Report>(), ["sdk"] = new List<Report>() };
            // The first run of each compiles its code, and does not count.
            await load.RunAsync("bare", configuration);
            await load.RunAsync("sdk", configuration);
            for (var round = 0; round < options.Compare; round++)
            {
                var order = round % 2 == 0 ? new[] { "bare", "sdk" } : new[] { "sdk", "bare" };
                foreach (var client in order)
                {
                    reports[client].Add(await load.RunAsync(client, configuration));
                }
            }
            var (bare, sdk) = (Median(reports["bare"]), Median(reports["sdk"]));
            var (bareErrors, sdkErrors) =
                (reports["bare"].Sum(report => report.Errors), reports["sdk"].Sum(report => report.Errors));
            Print(Head(options, "both")
                .Append(("rounds", options.Compare))
                .Concat(Figures(bare).Select(each => ("bare_" + each.Name, each.Value)))
                .Concat(Figures(sdk).Select(each => ("sdk_" + each.Name, each.Value)))
                .Append(("bare_errors", bareErrors))
                .Append(("sdk_errors", sdkErrors))
                .Append(("cpu_ratio", Math.Round(sdk.CpuUsPerRequest / bare.CpuUsPerRequest, 3))));
            return sdkErrors == 0 ? 0 : 1;
        }

        private static Report Median(List<Report> reports)
        {
            double Of(Func<Report, double> figure)
            {
                var sorted = reports.Select(figure).OrderBy(value => value).ToList();
                return (sorted[(sorted.Count - 1) / 2] + sorted[sorted.Count / 2]) / 2;
            }

            // One second of the median throughput, so that the derived figures are medians too.
            var perSecond = Of(report => report.RequestsPerSecond);
            return new Report
            {
                Seconds = 1,
                Requests = (long)perSecond,
                CpuSeconds = Of(report => report.CpuUsPerRequest) * (long)perSecond / 1e6,
                Connections = reports[0].Connections,
                P50Us = Of(report => report.P50Us),
                P99Us = Of(report => report.P99Us),
                P999Us = Of(report => report.P999Us),
            };
        }

        private static IEnumerable<(string Name, object Value)> Head(Options options, string client) =>
            new (string, object)[]
            {
                ("client", client),
                ("runtime", RuntimeInformation.FrameworkDescription),
                ("preset", options.Preset),
                ("concurrency", options.Concurrency),
                ("seconds", options.Seconds),
            };

        private static IEnumerable<(string Name, object Value)> Figures(Report report) => new (string, object)[]
        {
            ("requests", report.Requests),
            ("requests_per_s", Math.Round(report.RequestsPerSecond)),
            ("p50_us", Math.Round(report.P50Us, 1)),
            ("p99_us", Math.Round(report.P99Us, 1)),
            ("p999_us", Math.Round(report.P999Us, 1)),
            ("cpu_us_per_request", Math.Round(report.CpuUsPerRequest, 2)),
            ("connections", report.Connections),
        };

        private static void Print(IEnumerable<(string Name, object Value)> figures)
        {
            string Shown(object value) =>
                value is string ? $"\"{value}\"" : Convert.ToString(value, CultureInfo.InvariantCulture)
                    ?? string.Empty;
            Console.WriteLine(
                "{" + string.Join(", ", figures.Select(each => $"\"{each.Name}\": {Shown(each.Value)}")) + "}");
        }

        /// <summary>The keys, and the loop.</summary>
        private sealed class Load
        {
            private readonly Options options;
            private readonly string[] keys;
            private readonly byte[] value;
            private readonly (string Key, bool Reads)[] choices;

            public Load(Options options)
            {
                this.options = options;
                keys = Enumerable.Range(0, options.KeySpace).Select(at => $"bench:{at:D8}").ToArray();
                value = Enumerable.Range(0, options.ValueBytes).Select(at => (byte)(at % 251)).ToArray();
                var random = new Random(1);
                choices = Enumerable.Range(0, Choices)
                    .Select(_ => (keys[random.Next(keys.Length)], random.NextDouble() < options.GetRatio)).ToArray();
            }

            /// <summary>Stores all keys.</summary>
            public async Task PrepareAsync()
            {
                await using var client = await CacheClient.CreateAsync(
                    options.Address, null, SdkSender.CredentialsOf(options), SdkSender.Ttl, options.Cache);
                for (var at = 0; at < keys.Length; at += BatchKeys)
                {
                    var batch = keys.Skip(at).Take(BatchKeys).Select(
                        key => KeyValuePair.Create<Bytes, Bytes>(key, value));
                    if (await client.SetBatchAsync(batch) is DoneResult.Error error)
                    {
                        throw error.Details.ToException();
                    }
                }
            }

            public async Task<Report> RunAsync(string kind, Configuration configuration)
            {
                await using var sender = kind == "sdk"
                    ? await SdkSender.CreateAsync(options, configuration)
                    : new BareSender(options, configuration);
                var run = new Run(sender, choices, value);
                var workers = Enumerable.Range(0, options.Concurrency)
                    .Select(worker => Task.Run(() => run.WorkAsync(worker * Choices / options.Concurrency))).ToList();
                await Task.Delay(TimeSpan.FromSeconds(Math.Min(1, options.Seconds / 2)));
                using var process = Process.GetCurrentProcess();
                var cpu = process.TotalProcessorTime;
                var watch = Stopwatch.StartNew();
                run.Begin();
                await Task.Delay(TimeSpan.FromSeconds(options.Seconds));
                run.End();
                var seconds = watch.Elapsed.TotalSeconds;
                process.Refresh();
                cpu = process.TotalProcessorTime - cpu;
                await Task.WhenAll(workers);
                return run.Report(seconds, cpu.TotalSeconds);
            }
        }

        /// <summary>One run of all workers.</summary>
        private sealed class Run
        {
            private readonly ISender sender;
            private readonly (string Key, bool Reads)[] choices;
            private readonly byte[] value;
            private readonly Histogram latencies = new Histogram();
            private volatile int phase;
            private long errors;

            public Run(ISender sender, (string Key, bool Reads)[] choices, byte[] value)
            {
                this.sender = sender;
                this.choices = choices;
                this.value = value;
            }

            public void Begin() => phase = 1;

            public void End() => phase = 2;

            public async Task WorkAsync(int start)
            {
                for (var at = start; phase < 2; at = (at + 1) % choices.Length)
                {
                    var (key, reads) = choices[at];
                    var began = Stopwatch.GetTimestamp();
                    var isGood = await (reads ? sender.GetAsync(key) : sender.SetAsync(key, value));
                    if (phase != 1)
                    {
                        continue;
                    }
                    latencies.Record((long)((Stopwatch.GetTimestamp() - began) * (1e9 / Stopwatch.Frequency)));
                    if (!isGood)
                    {
                        Interlocked.Increment(ref errors);
                    }
                }
            }

            public Report Report(double seconds, double cpuSeconds) => new Report
            {
                Requests = latencies.Count - errors,
                Errors = errors,
                Connections = sender.Connections,
                Seconds = seconds,
                CpuSeconds = cpuSeconds,
                P50Us = latencies.QuantileNs(0.5) / 1000.0,
                P99Us = latencies.QuantileNs(0.99) / 1000.0,
                P999Us = latencies.QuantileNs(0.999) / 1000.0,
            };
        }
    }
}
