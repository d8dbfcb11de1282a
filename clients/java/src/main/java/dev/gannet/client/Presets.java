// Generated from clients/presets.toml by PresetsTest. Do not edit.
package dev.gannet.client;

import java.util.Map;

/** The table of presets. */
final class Presets {
    static final Map<String, String> LATEST = Map.ofEntries(
            Map.entry("InRegion.Default", "v1"),
            Map.entry("InRegion.LowLatency", "v1"),
            Map.entry("Lambda", "v1"),
            Map.entry("Laptop", "v1"));

    static final Map<String, Preset> VERSIONS = Map.ofEntries(
            Map.entry(
                    "InRegion.Default.v1",
                    new Preset(
                            1100,
                            400,
                            16384,
                            100,
                            4,
                            true,
                            5000,
                            1000,
                            true,
                            1000,
                            50,
                            1000,
                            "fixed_count",
                            3,
                            10,
                            10,
                            10485760)),
            Map.entry(
                    "InRegion.LowLatency.v1",
                    new Preset(
                            500,
                            20,
                            16384,
                            100,
                            1,
                            true,
                            5000,
                            1000,
                            true,
                            1000,
                            50,
                            1000,
                            "fixed_count",
                            3,
                            10,
                            10,
                            10485760)),
            Map.entry(
                    "Lambda.v1",
                    new Preset(
                            1100,
                            400,
                            16384,
                            100,
                            4,
                            true,
                            0,
                            1000,
                            false,
                            1000,
                            50,
                            1000,
                            "fixed_count",
                            3,
                            10,
                            10,
                            10485760)),
            Map.entry(
                    "Laptop.v1",
                    new Preset(
                            15000,
                            200,
                            16384,
                            100,
                            2,
                            false,
                            5000,
                            1000,
                            true,
                            5000,
                            50,
                            1000,
                            "fixed_count",
                            3,
                            10,
                            10,
                            10485760)));

    private Presets() {}
}
