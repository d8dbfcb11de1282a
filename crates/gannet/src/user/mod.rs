//! `gannet user`: edits the file of users (`listen.acl_file`), and makes a running server read it; makes tokens.

mod password;
mod server;
mod token;
mod users_file;

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use command::resp::acl::users_file::{NewPassword, UserError, UserSummary, UsersFile};

use crate::load::{args, ask};
use crate::{Failure, print, warn};
use password::PasswordSource;
use users_file::{Edit, read, read_or_create};

const FILE: &str = "file";
const NAME: &str = "NAME";
const RULES: &str = "RULE";
const STDIN: &str = "password-stdin";
const GENERATE: &str = "generate";
const CERTIFICATE: &str = "certificate";
const SERVER: &str = "server";
const AS: &str = "as";

/// The subcommand's arguments.
pub fn command() -> Command {
    let name = || Arg::new(NAME).required(true).help("The user's name");
    let rules = || {
        Arg::new(RULES)
            .required(true)
            .num_args(1..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .help("Rules as in ACL SETUSER: role:read|write|admin, '~KEYS', +COMMAND, ns=NAME, ops=N, off")
    };
    Command::new("user")
        .about("Edit the file of users and their rights; passwords are never arguments")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Options come before NAME.\n\nExamples:\n  \
             gannet user add --file /etc/gannet/users ann role:write '~app:*'\n  \
             gannet user passwd --file /etc/gannet/users --generate ann\n  \
             gannet user list --file /etc/gannet/users",
        )
        .subcommand(
            with_password(with_server(Command::new("add").about("Add a user, who can log in at once")))
                .arg(flag(CERTIFICATE, "Give no password: only a client certificate names the user"))
                .group(ArgGroup::new("password").args([STDIN, GENERATE, CERTIFICATE]))
                .arg(name())
                .arg(rules()),
        )
        .subcommand(Command::new("list").about("Print a table of the users").arg(file()))
        .subcommand(
            with_password(with_server(Command::new("passwd").about("Replace a user's passwords by a new one")))
                .group(ArgGroup::new("password").args([STDIN, GENERATE]))
                .arg(name()),
        )
        .subcommand(
            with_server(Command::new("rights").about("Apply rules to a user's rights; a role replaces its commands"))
                .arg(flag(STDIN, "Read the password of --as from the first line of standard input"))
                .arg(name())
                .arg(rules()),
        )
        .subcommand(
            with_server(Command::new("remove").about("Remove a user"))
                .arg(flag(STDIN, "Read the password of --as from the first line of standard input"))
                .arg(name()),
        )
        .subcommand(token::command())
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn file() -> Arg {
    Arg::new(FILE).long(FILE).required(true).value_name("PATH").help("The file of listen.acl_file")
}

fn with_server(command: Command) -> Command {
    let command = command
        .arg(file())
        .arg(
            Arg::new(SERVER)
                .long(SERVER)
                .value_name("ADDR")
                .help("Make the server at this address read the file (ACL LOAD); of another host with TLS only"),
        )
        .arg(Arg::new(AS).long(AS).value_name("NAME").requires(SERVER).help("Log in at the server as this user"));
    args::tls(command)
}

fn with_password(command: Command) -> Command {
    command
        .arg(flag(STDIN, "Read the password from the first line of standard input, and that of --as from the second"))
        .arg(flag(GENERATE, "Generate a password and print it once"))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((verb, matches)) = matches.subcommand() else { unreachable!("a subcommand is required") };
    if verb == "token" {
        return token::run(matches);
    }
    let path = Path::new(matches.get_one::<String>(FILE).expect("it is required"));
    if verb == "list" {
        return print(&table(&read(path)?.users().collect::<Vec<_>>()));
    }
    let name = matches.get_one::<String>(NAME).expect("it is required");
    let texts: Vec<&String> = matches.try_get_many(RULES).ok().flatten().into_iter().flatten().collect();
    if let Some(option) = texts.iter().find(|text| text.starts_with("--")) {
        return Err(Failure::Usage(vec![format!("{option} is behind NAME; put options before NAME")]));
    }
    let rules: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    // Wrong rules and names are reported before a password is asked for.
    let change = |users: &mut UsersFile, password: NewPassword<'_>| {
        let changed = match verb {
            "add" => users.add(name.as_bytes(), &rules, password),
            "remove" => users.remove(name.as_bytes()),
            _ => users.change(name.as_bytes(), &rules, password),
        };
        changed.map_err(|error| failed(path, name, &texts, &error))
    };
    change(&mut read_or_create(path, verb == "add")?, NewPassword::Keep)?;
    let mut source = PasswordSource::new(is_set(matches, STDIN));
    let generated = is_set(matches, GENERATE);
    let secret = match verb {
        "add" | "passwd" if generated => Some(password::generate()),
        "add" if is_set(matches, CERTIFICATE) => None,
        "add" | "passwd" => Some(source.new_password(name)?),
        _ => None,
    };
    let tls = match matches.get_one::<String>(SERVER) {
        Some(addr) => ask::tls_maker(matches, addr)?,
        None => None,
    };
    let login = match matches.get_one::<String>(AS) {
        Some(admin) => Some((admin.as_str(), source.password(&format!("Password of {admin} at the server: "))?)),
        None => None,
    };
    let mut edit = Edit::begin(path, verb == "add")?;
    change(
        &mut edit.users,
        secret.as_deref().map_or(NewPassword::Keep, |secret| NewPassword::Only(secret.as_bytes())),
    )?;
    edit.write()?;
    if let Some(secret) = secret.filter(|_| generated) {
        print(&format!("{secret}\n"))?;
    }
    match matches.get_one::<String>(SERVER) {
        Some(addr) => {
            let login = login.as_ref().map(|(admin, secret)| (*admin, secret.as_str()));
            server::load(addr, tls.as_ref(), login)?;
            warn(&format!("gannet: {addr} has read the file"));
        }
        None => warn(&format!(
            "gannet: {} is written; a running server reads it after SIGHUP, ACL LOAD, or --server ADDR",
            path.display()
        )),
    }
    Ok(())
}

fn is_set(matches: &ArgMatches, flag: &str) -> bool {
    matches.try_get_one::<bool>(flag).ok().flatten().copied().unwrap_or(false)
}

/// Returns the failure of an edit: what, where and the remedy. Never quotes a password.
fn failed(path: &Path, name: &str, rules: &[&String], error: &UserError) -> Failure {
    let path = path.display();
    let rule = |number: &usize| rules.get(*number).map_or("", |rule| rule.as_str());
    let usage = |text: String| Failure::Usage(vec![text]);
    let failed = |text: String| Failure::Failed(vec![text]);
    match error {
        UserError::Exists => {
            failed(format!("{path} has a user {name:?}; use gannet user passwd or rights to change it"))
        }
        UserError::Missing => failed(format!("{path} has no user {name:?}; gannet user list shows the names")),
        UserError::Name => usage(format!("{name:?} cannot be a user's name; use 1 to 64 bytes without spaces")),
        UserError::Full => failed(format!("{path} has 1000 users, the maximum; remove one first")),
        UserError::Password => {
            usage("the password is empty, over 4096 bytes, or has a line end; use another one".to_owned())
        }
        UserError::SecretRule(_) => usage(
            "a rule is a password or its hash; pass passwords by --password-stdin, and edit the file for a hash"
                .to_owned(),
        ),
        UserError::Rule(number, why) => usage(format!("rule {:?}: {why}", rule(number))),
        UserError::Memory => failed("cannot hash the password: out of memory; free 19 MiB".to_owned()),
    }
}

/// Returns the users as a table with aligned columns.
fn table(users: &[UserSummary]) -> String {
    let mut rows = vec![["USER", "RIGHTS", "NAMESPACES", "KEYS", "PASSWORD"].map(str::to_owned)];
    for user in users {
        let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let name = user.name.escape_debug();
        let name = if user.is_on { name.to_string() } else { format!("{name} (off)") };
        let keys = if user.keys == "~*" { "all".to_owned() } else { or_none(&user.keys) };
        let namespaces = user.namespaces.replace("ns=", "");
        rows.push([name, user.commands.clone(), namespaces, keys, user.passwords.to_owned()]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    rows.iter().fold(String::new(), |mut text, row| {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", row[4]);
        text
    })
}
