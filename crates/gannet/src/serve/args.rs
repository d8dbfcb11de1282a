//! The arguments of `gannet serve`, generated from the table of settings.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use server::config::file::{Origins, read_file};
use server::config::table::{ABSENT, SETTINGS, Setting};
use server::config::text::facts;
use server::config::value::{Shape, Wrong};
use server::config::{ConfigFault, Origin, Settings};

/// memcached's short flags, with the equivalent setting.
const MEMCACHED_FLAGS: [(&str, &str); 14] = [
    ("p", "--memcached 127.0.0.1:PORT"),
    ("l", "--memcached ADDRESS:PORT"),
    ("s", "--memcached unix:PATH"),
    ("a", "listen.unix_mode in the file"),
    ("m", "--memory 64MiB"),
    ("c", "--maxconns N"),
    ("t", "--workers N"),
    ("I", "--item-max 1MiB"),
    ("A", "commands.shutdown in the file"),
    ("v", "--log debug"),
    ("d", "the service manager, which runs the server in the background"),
    ("u", "the service manager, which chooses the user"),
    ("U", "nothing: UDP is not supported"),
    ("B", "nothing: every port accepts the text and meta protocols"),
];

/// The flag that discards the contents of a memory file. It is not a setting of the configuration file, where it would
/// discard the contents at every start.
pub const FILE_RESET: &str = "file-reset";

/// The flag that discards the contents of flash devices. It is not a setting, for the same reason as [`FILE_RESET`].
pub const FLASH_RESET: &str = "flash-reset";

/// The flag with which a new process takes over from the running server. It is not a setting, because both processes
/// act as one server.
pub const UPGRADE: &str = "upgrade";

/// Returns the subcommand's arguments.
pub fn command() -> Command {
    let mut serve = Command::new("serve")
        .about("Run the server")
        .after_help("`gannet config --default` prints a file with every setting, including those without a flag.")
        .arg(Arg::new("CONFIG").help("Settings file; flags override it").value_name("CONFIG.toml"));
    let defaults = Settings::default();
    for setting in &SETTINGS {
        let Some(flag) = setting.flag else { continue };
        let (shape, placeholder) = setting.view(&defaults, |value| (value.shape(), value.placeholder()));
        let action = match shape {
            Shape::Switch => ArgAction::SetTrue,
            Shape::List => ArgAction::Append,
            Shape::Text | Shape::Integer => ArgAction::Set,
        };
        let mut arg = Arg::new(flag).long(flag).action(action).help(help(setting, shape));
        if shape != Shape::Switch {
            arg = arg.value_name(placeholder).allow_hyphen_values(true);
        }
        serve = serve.arg(arg);
    }
    serve = serve.arg(
        Arg::new(FILE_RESET)
            .long(FILE_RESET)
            .action(ArgAction::SetTrue)
            .help("Discard the contents of the file given by --file and create it again"),
    );
    serve = serve.arg(
        Arg::new(FLASH_RESET)
            .long(FLASH_RESET)
            .action(ArgAction::SetTrue)
            .help("Discard the contents of the devices and files given by --flash, even those of another program"),
    );
    serve = serve.arg(Arg::new(UPGRADE).long(UPGRADE).action(ArgAction::SetTrue).help(
        "Take over listeners, connections and memory from the server at the same address, which then ends; both need \
         the same --file, or the old server must run with --upgradable",
    ));
    for (flag, _, _) in ABSENT {
        serve = serve.arg(hidden(Arg::new(flag).long(flag)));
    }
    for (letter, _) in MEMCACHED_FLAGS {
        serve = serve.arg(hidden(Arg::new(letter).short(letter.chars().next())));
    }
    serve
}

/// Hides an argument that is defined only so that its use has a clear error message.
fn hidden(arg: Arg) -> Arg {
    arg.hide(true).num_args(0..=1).action(ArgAction::Append).allow_hyphen_values(true)
}

fn help(setting: &Setting, shape: Shape) -> String {
    let own_flag = |fact: &String| !fact.starts_with("--");
    let mut facts: Vec<String> = facts(setting).into_iter().filter(own_flag).collect();
    if shape == Shape::List {
        facts.push("may be repeated".to_owned());
    }
    let default = if setting.default.is_empty() { "none".to_owned() } else { setting.default.join(" ") };
    format!("{} [default: {default}] [{}]", setting.help, facts.join("; "))
}

/// Returns the settings: the defaults, then the file if there is one, then the flags. Reports all faults at once, those
/// of the file first.
pub fn settings(matches: &ArgMatches) -> Result<(Settings, Origins), Vec<ConfigFault>> {
    let (mut settings, mut origins, mut faults) = (Settings::default(), Origins::new(), Vec::new());
    if let Some(path) = matches.get_one::<String>("CONFIG") {
        faults.extend(read_file(Path::new(path), &mut settings, &mut origins).err().unwrap_or_default());
    }
    for setting in &SETTINGS {
        let Some(flag) = setting.flag else { continue };
        let texts: Vec<&str> = match setting.view(&settings, |value| value.shape()) {
            Shape::Switch if matches.get_flag(flag) => vec!["true"],
            Shape::Switch => continue,
            _ => match matches.get_many::<String>(flag) {
                Some(texts) => texts.map(String::as_str).collect(),
                None => continue,
            },
        };
        match setting.set(&mut settings, &texts) {
            Ok(()) => {
                origins.insert(setting.path, Origin::Flag(flag));
            }
            Err(wrongs) => {
                faults.extend(wrongs.into_iter().map(|wrong| ConfigFault::new(Origin::Flag(flag), "", wrong)))
            }
        }
    }
    if faults.is_empty() { Ok((settings, origins)) } else { Err(faults) }
}

/// Returns errors for flags that this build refuses.
pub fn refused(matches: &ArgMatches) -> Vec<String> {
    let given = |name: &str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    let absent = ABSENT.iter().filter(|(flag, _, _)| given(flag)).map(|(flag, _, what)| {
        let wrong = Wrong::new(format!("this build does not have {what}"), "remove the flag");
        ConfigFault::new(Origin::Flag(flag), "", wrong).to_string()
    });
    let foreign = MEMCACHED_FLAGS.iter().filter(|(letter, _)| given(letter));
    let foreign = foreign.map(|(letter, ours)| format!("-{letter}: this is a memcached flag; use instead: {ours}"));
    absent.chain(foreign).collect()
}
