package dev.gannet.client;

/** The presets. {@code v1()} never changes; {@code latest()} may return other values in a later release. */
public final class Configurations {
    private Configurations() {}

    /**
     * Returns the preset with this name.
     *
     * @param name a name such as {@code InRegion.LowLatency} (the latest version) or {@code Laptop.v1}
     * @throws CacheException if there is no such preset
     */
    public static Configuration named(String name) {
        String latest = Presets.LATEST.get(name);
        Preset preset = Presets.VERSIONS.get(latest == null ? name : name + "." + latest);
        if (preset == null) {
            throw new CacheError(ErrorCode.INVALID_ARGUMENT, "cannot find preset '" + name + "'", "it does not exist",
                    "use one of " + String.join(", ", Presets.LATEST.keySet().stream().sorted().toList()), null)
                    .toException();
        }
        return new Configuration(preset);
    }

    /** Development on one machine, and clients far from the server. */
    public static final class Laptop {
        private Laptop() {}

        /** Returns version 1, which never changes. */
        public static Configuration v1() {
            return named("Laptop.v1");
        }

        /** Returns the newest version. A later release may return other values. */
        public static Configuration latest() {
            return named("Laptop");
        }
    }

    /** Services in the same region as the server. */
    public static final class InRegion {
        private InRegion() {}

        /** Services that need throughput. */
        public static final class Default {
            private Default() {}

            /** Returns version 1, which never changes. */
            public static Configuration v1() {
                return named("InRegion.Default.v1");
            }

            /** Returns the newest version. A later release may return other values. */
            public static Configuration latest() {
                return named("InRegion.Default");
            }
        }

        /** Services that need a low p999: few requests are in flight, and a slow one is given up early. */
        public static final class LowLatency {
            private LowLatency() {}

            /** Returns version 1, which never changes. */
            public static Configuration v1() {
                return named("InRegion.LowLatency.v1");
            }

            /** Returns the newest version. A later release may return other values. */
            public static Configuration latest() {
                return named("InRegion.LowLatency");
            }
        }
    }

    /** Functions that the platform freezes between two invocations. */
    public static final class Lambda {
        private Lambda() {}

        /** Returns version 1, which never changes. */
        public static Configuration v1() {
            return named("Lambda.v1");
        }

        /** Returns the newest version. A later release may return other values. */
        public static Configuration latest() {
            return named("Lambda");
        }
    }
}
