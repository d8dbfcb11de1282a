using System;
using System.Collections.Generic;
using System.Globalization;

namespace Gannet.Bench
{
    /// <summary>The arguments of the program.</summary>
    internal sealed class Options
    {
        public const string Usage = @"Measures the client library in a closed loop, and prints JSON.

  Gannet.Bench --address HOST:PORT [options]

  --address HOST:PORT   of `gannet serve --grpc`
  --cache NAME          the cache (default: default)
  --token TOKEN         the token, if the server needs one
  --preset NAME         preset of the client (default: InRegion.LowLatency)
  --in-flight-max N     cap of requests in flight (default: that of the preset)
  --client sdk|bare     the library, or calls of HttpClient without it (default: sdk)
  --compare ROUNDS      measure both in turn, ROUNDS times, each first in every other round
  --concurrency N       requests that are offered at once (default: 16)
  --seconds N           measured time of each run, after a warm-up (default: 5)
  --key-space N         number of keys (default: 1000)
  --value-bytes N       size of each value (default: 100)
  --get-ratio N         share of gets; the others are sets (default: 1)
";

        private readonly Dictionary<string, string> values = new Dictionary<string, string>
        {
            ["--cache"] = "default",
            ["--token"] = string.Empty,
            ["--preset"] = "InRegion.LowLatency",
            ["--in-flight-max"] = "0",
            ["--client"] = "sdk",
            ["--compare"] = "0",
            ["--concurrency"] = "16",
            ["--seconds"] = "5",
            ["--key-space"] = "1000",
            ["--value-bytes"] = "100",
            ["--get-ratio"] = "1",
            ["--address"] = string.Empty,
        };

        public Options(string[] arguments)
        {
            for (var at = 0; at < arguments.Length; at += 2)
            {
                if (!values.ContainsKey(arguments[at]) || at + 1 == arguments.Length)
                {
                    throw new ArgumentException(
                        $"cannot start: {arguments[at]} is unknown or has no value; pass --help for the options");
                }
                values[arguments[at]] = arguments[at + 1];
            }
            if (Address.Length == 0)
            {
                throw new ArgumentException("cannot start: --address is missing; pass --address HOST:PORT");
            }
            if (Client != "sdk" && Client != "bare")
            {
                throw new ArgumentException($"cannot use --client {Client}: it is unknown; pass sdk or bare");
            }
            InFlightMax = (int)Number("--in-flight-max", 0);
            Compare = (int)Number("--compare", 0);
            Concurrency = (int)Number("--concurrency", 1);
            Seconds = Number("--seconds", 0.01);
            KeySpace = (int)Number("--key-space", 1);
            ValueBytes = (int)Number("--value-bytes", 0);
            GetRatio = Number("--get-ratio", 0);
        }

        public string Address => values["--address"];

        public string Cache => values["--cache"];

        public string Token => values["--token"];

        public string Preset => values["--preset"];

        public string Client => values["--client"];

        /// <summary>The cap of requests in flight; 0 for that of the preset.</summary>
        public int InFlightMax { get; }

        public int Compare { get; }

        public int Concurrency { get; }

        public double Seconds { get; }

        public int KeySpace { get; }

        public int ValueBytes { get; }

        public double GetRatio { get; }

        private double Number(string name, double least)
        {
            if (double.TryParse(values[name], NumberStyles.Float, CultureInfo.InvariantCulture, out var value)
                && value >= least)
            {
                return value;
            }
            throw new ArgumentException($"cannot use {name} {values[name]}: it is out of range; pass at least {least}");
        }
    }
}
