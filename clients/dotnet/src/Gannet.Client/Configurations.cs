using System;

namespace Gannet.Client
{
    /// <summary>
    /// The presets. <c>V1()</c> never changes; <c>Latest()</c> may return other values in a later release.
    /// </summary>
    public static class Configurations
    {
        /// <summary>Returns the preset with this name.</summary>
        /// <param name="name">
        /// A name such as <c>InRegion.LowLatency</c> (the latest version) or <c>Laptop.v1</c>.
        /// </param>
        /// <returns>The configuration.</returns>
        /// <exception cref="ArgumentException">There is no such preset.</exception>
        public static Configuration Named(string name)
        {
            _ = name ?? throw new ArgumentNullException(nameof(name));
            var version = Preset.Latest.TryGetValue(name, out var latest) ? $"{name}.{latest}" : name;
            return Preset.Versions.TryGetValue(version, out var preset)
                ? new Configuration(preset)
                : throw new ArgumentException(
                    $"cannot find preset '{name}': it does not exist; "
                    + $"use one of {string.Join(", ", Preset.Latest.Keys)}",
                    nameof(name));
        }

        /// <summary>Development on one machine, and clients far from the server.</summary>
        public static class Laptop
        {
            /// <summary>Returns version 1, which never changes.</summary>
            /// <returns>The configuration.</returns>
            public static Configuration V1() => Named("Laptop.v1");

            /// <summary>Returns the newest version. A later release may return other values.</summary>
            /// <returns>The configuration.</returns>
            public static Configuration Latest() => Named("Laptop");
        }

        /// <summary>Services in the same region as the server.</summary>
        public static class InRegion
        {
            /// <summary>Services that need throughput.</summary>
            public static class Default
            {
                /// <summary>Returns version 1, which never changes.</summary>
                /// <returns>The configuration.</returns>
                public static Configuration V1() => Named("InRegion.Default.v1");

                /// <summary>Returns the newest version. A later release may return other values.</summary>
                /// <returns>The configuration.</returns>
                public static Configuration Latest() => Named("InRegion.Default");
            }

            /// <summary>Services that need a low p999.</summary>
            public static class LowLatency
            {
                /// <summary>Returns version 1, which never changes.</summary>
                /// <returns>The configuration.</returns>
                public static Configuration V1() => Named("InRegion.LowLatency.v1");

                /// <summary>Returns the newest version. A later release may return other values.</summary>
                /// <returns>The configuration.</returns>
                public static Configuration Latest() => Named("InRegion.LowLatency");
            }
        }

        /// <summary>Functions that the platform freezes between two invocations.</summary>
        public static class Lambda
        {
            /// <summary>Returns version 1, which never changes.</summary>
            /// <returns>The configuration.</returns>
            public static Configuration V1() => Named("Lambda.v1");

            /// <summary>Returns the newest version. A later release may return other values.</summary>
            /// <returns>The configuration.</returns>
            public static Configuration Latest() => Named("Lambda");
        }
    }
}
