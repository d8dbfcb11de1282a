using System;

namespace Gannet.Client.Engine
{
    /// <summary>Checks of times.</summary>
    internal static class Times
    {
        /// <summary>Returns a time in milliseconds, or 0 for null, which the server takes for its default.</summary>
        public static ulong OptionalMs(string name, TimeSpan? time)
        {
            if (time == null)
            {
                return 0;
            }
            return time >= TimeSpan.FromMilliseconds(1)
                ? (ulong)Math.Round(time.Value.TotalMilliseconds)
                : throw new ArgumentOutOfRangeException(
                    name, $"cannot use {name} {time}: it is too low; give at least 1 ms, or null");
        }

        /// <summary>Returns the milliseconds since 1970 of a change.</summary>
        public static ulong SinceEpochMs(string name, long timeMs) => timeMs >= 0
            ? (ulong)timeMs
            : throw new ArgumentOutOfRangeException(
                name, $"cannot use {name} {timeMs}: it is negative; give milliseconds since 1970");

        public static TimeSpan NotNegative(TimeSpan time) => time < TimeSpan.Zero ? TimeSpan.Zero : time;

        public static TimeSpan Least(TimeSpan one, TimeSpan other) => one < other ? one : other;
    }
}
