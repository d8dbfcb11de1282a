using System;
using System.Diagnostics;

namespace Gannet.Client.Engine
{
    /// <summary>Conversions of the ticks of <see cref="Stopwatch"/>, the monotonic clock.</summary>
    internal static class Clock
    {
        private static readonly double TicksPerTick = (double)Stopwatch.Frequency / TimeSpan.TicksPerSecond;

        public static long TicksOf(TimeSpan time) => (long)(time.Ticks * TicksPerTick);

        public static TimeSpan TimeOf(long ticks) => TimeSpan.FromTicks((long)(ticks / TicksPerTick));

        public static TimeSpan Since(long start) => TimeOf(Stopwatch.GetTimestamp() - start);
    }
}
