//! The texts that are generated from the table of settings: the sample file, the page in `docs/`, and the running
//! values.

use std::fmt::Write;

use super::fault::Origin;
use super::file::{Origins, toml_text};
use super::namespaces::{KEYS, NamespaceName, NamespaceSettings};
use super::settings::Settings;
use super::table::{ABSENT, Reload, SETTINGS, Setting, TABLES};
use super::value::Shape;

/// The width of comments and paragraphs, in columns.
const WIDTH: usize = 110;

/// Returns the sample CONFIG.toml: every setting with its description and its default. It names the listeners of a
/// server without configuration, because a file that names one of them turns the other one off.
pub fn sample() -> String {
    let mut out = String::from(
        "# Settings of `gannet serve`, all at their defaults. Flags win over this file.\n\
         # Sizes and durations carry their unit: MiB is 2^20 bytes, MB is 10^6; \"100ms\", \"60s\", \"5m\".\n",
    );
    let mut defaults = Settings::default();
    defaults.listen_on_default_ports();
    for (table, about) in TABLES {
        let _ = write!(out, "\n# {about}\n[{table}]\n");
        for setting in SETTINGS.iter().filter(|setting| setting.table() == table) {
            let facts = facts(setting).join("; ");
            for line in wrapped(&format!("{} ({facts})", setting.help), WIDTH) {
                let _ = writeln!(out, "# {line}");
            }
            let _ = writeln!(out, "{} = {}", setting.key(), setting.view(&defaults, toml_text));
        }
    }
    out.push_str(
        "\n# A namespace: a separate set of keys, optionally with its own memory. Repeat the lines for each.\n",
    );
    out.push_str("#[[namespace]]\n");
    let example = example();
    for key in &KEYS {
        for line in wrapped(key.help, WIDTH) {
            let _ = writeln!(out, "# {line}");
        }
        let _ = writeln!(out, "#{} = {}", key.key, key.text(&example));
    }
    out
}

/// Returns an example of a namespace, in which only the name is set.
fn example() -> NamespaceSettings {
    NamespaceSettings { name: NamespaceName("sessions".to_owned()), ..NamespaceSettings::default() }
}

/// Returns the documentation page of all settings, in Markdown.
pub fn docs() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         <!-- Written by `gannet config --docs`. -->\n\n\
         `gannet serve` runs without any setting. A setting comes from its default, then from the file given as\n\
         `gannet serve CONFIG.toml`, then from its flag; the last one wins. `gannet config --default` prints a file\n\
         with every setting, and `gannet config --check CONFIG.toml` lists every fault of a file at once, each with\n\
         its line and what to write instead.\n\n\
         Sizes and durations carry their unit. MiB is 2^20 bytes and MB is 10^6; a duration ends in `ns`, `us`, `ms`,\n\
         `s`, `m`, `h` or `d`. A bare number is refused.\n\n\
         SIGHUP reads the file again. Settings marked *live* take effect at once; a change of any other is named in\n\
         the log and waits for a restart. A file with a fault changes nothing.\n",
    );
    let defaults = Settings::default();
    for (table, about) in TABLES {
        let _ = write!(out, "\n## [{table}]\n\n{about}\n\n");
        out.push_str("| setting | flag | default | range | reload | what it does |\n|---|---|---|---|---|---|\n");
        for setting in SETTINGS.iter().filter(|setting| setting.table() == table) {
            let (default, placeholder) =
                setting.view(&defaults, |value| (toml_text(value), value.placeholder().replace('|', "\\|")));
            let flag = setting.flag.map_or(String::new(), |flag| match setting.view(&defaults, |v| v.shape()) {
                Shape::Switch => format!("`--{flag}`"),
                _ => format!("`--{flag} {placeholder}`"),
            });
            let range = setting.show_range().unwrap_or_default();
            let reload = if setting.reload == Reload::Live { "live" } else { "restart" };
            let _ = writeln!(
                out,
                "| `{}` | {flag} | `{default}` | {range} | {reload} | {} |",
                setting.key(),
                setting.help.replace('|', "\\|")
            );
        }
    }
    out.push_str(
        "\n## [[namespace]]\n\nA namespace has its own keys and memory: [namespaces.md](namespaces.md).\n\
         Write one such table for each namespace.\n\n| setting | default | range | reload | what it does |\n\
         |---|---|---|---|---|\n",
    );
    for key in &KEYS {
        let (mut plain, reload) = (NamespaceSettings::default(), if key.live { "live" } else { "restart" });
        let default = key.text(&plain);
        let value = (key.value)(&mut plain);
        let shown = |(min, max)| format!("{} to {}", value.show_magnitude(min), value.show_magnitude(max));
        let range = key.range.map_or(String::new(), shown);
        let _ = writeln!(out, "| `{}` | `{default}` | {range} | {reload} | {} |", key.key, key.help);
    }
    out.push_str(
        "\n## Not in this build\n\nThese names are refused with a line that says so.\n\n| flag | setting | what |\n",
    );
    out.push_str("|---|---|---|\n");
    for (flag, path, what) in ABSENT {
        let _ = writeln!(out, "| `--{flag}` | `{path}` | {what} |");
    }
    out
}

/// Returns the values of `settings` in the format of the configuration file, each with its origin.
pub fn running(settings: &Settings, origins: &Origins) -> String {
    let mut out = String::new();
    for (table, _) in TABLES {
        let _ = writeln!(out, "[{table}]");
        for setting in SETTINGS.iter().filter(|setting| setting.table() == table) {
            let value = setting.view(settings, toml_text);
            let origin = origins.get(setting.path).unwrap_or(&Origin::Default);
            let _ = writeln!(out, "{} = {value}  # {origin}", setting.key());
        }
    }
    for namespace in &settings.namespaces {
        let _ = write!(out, "[[namespace]]\n{}", namespace.lines());
    }
    out
}

/// Returns the sentences that follow a setting's help text: range, flag, effect of a reload.
pub fn facts(setting: &Setting) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(setting.show_range());
    facts.extend(setting.flag.map(|flag| format!("--{flag}")));
    facts.push(if setting.reload == Reload::Live { "SIGHUP reloads it" } else { "needs a restart" }.to_owned());
    facts
}

/// Wraps `text` into lines of at most `width` columns, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::read_text;
    use std::path::Path;

    #[test]
    fn the_sample_reads_back_to_the_defaults_and_sets_everything() {
        let mut settings = Settings::default();
        for setting in &SETTINGS {
            let other = [
                "unix:/run/g",
                "7",
                "7s",
                "7ms",
                "77KiB",
                "17MiB",
                "none",
                "0777",
                "true",
                "false",
                "epoll",
                "error",
                "KEA",
                "monitor",
                "/tmp/flash:1GiB",
                "dram",
                "json",
                "optional",
                "cn",
                "1.3",
                "TLS_AES_128_GCM_SHA256",
                "sha256",
            ];
            let changed = other.iter().any(|text| {
                setting.set(&mut settings, &[text]).is_ok()
                    && setting.show(&settings) != setting.show(&Settings::default())
            });
            assert!(changed, "{}", setting.path);
        }
        let mut origins = Origins::new();
        read_text(Path::new("sample"), &sample(), &mut settings, &mut origins).unwrap();
        let mut without_configuration = Settings::default();
        without_configuration.listen_on_default_ports();
        assert_eq!(settings, without_configuration, "a server with the sample serves Redis clients too");
        assert_eq!(origins.len(), SETTINGS.len());
        assert!(sample().lines().all(|line| line.len() <= 120));
    }

    #[test]
    fn the_running_values_read_back_too() {
        let mut settings = Settings::default();
        let text = "[store]\nmemory = \"1GiB\"\n[listen]\nadmin = \"none\"\n";
        let mut origins = Origins::new();
        read_text(Path::new("g.toml"), text, &mut settings, &mut origins).unwrap();
        let shown = running(&settings, &origins);
        assert!(shown.contains("memory = \"1GiB\"  # g.toml:2"), "{shown}");
        assert!(shown.contains("workers = \"auto\"  # default"), "{shown}");
        let mut again = Settings::default();
        read_text(Path::new("again"), &shown, &mut again, &mut Origins::new()).unwrap();
        assert_eq!(again, settings);
    }

    #[test]
    fn the_page_names_every_setting_and_every_absence() {
        let page = docs();
        for setting in &SETTINGS {
            assert!(page.contains(&format!("| `{}` |", setting.key())), "{}", setting.path);
        }
        for (flag, path, _) in ABSENT {
            assert!(page.contains(&format!("| `--{flag}` | `{path}` |")));
        }
    }
}
