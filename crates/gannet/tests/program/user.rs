//! Tests of `gannet user`, which edits the file of users.

use crate::common::{Serving, TempFile, gannet, run};
use crate::load_tls::certified;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Runs `gannet user` with lines on its standard input. Returns the exit code, standard output and standard error.
fn user(args: &[&str], input: &str) -> (i32, String, String) {
    let mut command = gannet(&[&["user"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn text(file: &TempFile) -> String {
    std::fs::read_to_string(file.path()).unwrap()
}

#[test]
fn password_is_in_no_argument_and_no_file_and_comments_remain() {
    let file = TempFile::new("users", "# our people\nuser old on nopass ~* +@all\n");
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o644)).unwrap();
    let at = ["--file", file.path()];
    let add =
        user(&[&["add"], &at[..], &["--password-stdin", "ann", "role:write", "~app:*", "-del"]].concat(), "s3cret\n");
    assert_eq!((add.0, &*add.1), (0, ""), "{}", add.2);
    assert!(add.2.contains("SIGHUP, ACL LOAD, or --server"), "{}", add.2);
    let after = text(&file);
    assert!(
        after.starts_with("# our people\nuser old on nopass ~* +@all\nuser ann on $argon2id$v=19$m=19456"),
        "{after}"
    );
    assert!(after.contains("-@dangerous -function -del") && !after.contains("s3cret"), "{after}");
    let mode = std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640, "others cannot read the hashes");
    let generated = user(&[&["add"], &at[..], &["--generate", "gen", "role:read", "~*", "ns=shop"]].concat(), "");
    let secret = generated.1.trim_end();
    assert!(secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{generated:?}");
    assert!(!text(&file).contains(secret));
    assert_eq!(user(&[&["add"], &at[..], &["--certificate", "cert", "off"]].concat(), "").0, 0);
    let (_, list, _) = run(&["user", "list", "--file", file.path()]);
    let lines: Vec<&str> = list.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "USER        RIGHTS                                                        NAMESPACES  KEYS    PASSWORD",
            "old         +@all                                                         all         all     none needed",
            "ann         -@all +@read +@write +@connection -@dangerous -function -del  all         ~app:*  argon2id",
            "gen         role:read                                                     shop        all     argon2id",
            concat!(
                "cert (off)  -@all                                                         ",
                "all         none    certificate only"
            ),
        ]
    );
    assert_eq!(user(&[&["rights"], &at[..], &["ann", "role:read", "resetkeys"]].concat(), "").0, 0);
    assert!(text(&file).contains("-@all +@read +@connection -@dangerous\n"));
    assert_eq!(user(&[&["remove"], &at[..], &["gen"]].concat(), "").0, 0);
    assert!(!text(&file).contains("user gen") && text(&file).starts_with("# our people\n"));
}

#[test]
fn wrong_input_is_one_line_with_a_remedy_and_changes_nothing() {
    let file = TempFile::new("users", "user ann on nopass\n");
    let broken = TempFile::new("broken", "user ann on\npassword\n");
    for (args, code, reason) in [
        (&["add", "--file", file.path(), "--generate", "ann", "role:read"][..], 1, "use gannet user passwd or rights"),
        (
            &["add", "--file", file.path(), "--generate", "bob", "role:reader"],
            2,
            "use role:read, role:write or role:admin",
        ),
        (&["add", "--file", file.path(), "--generate", "bob", ">secret"], 2, "pass passwords by --password-stdin"),
        (&["add", "--file", file.path(), "--password-stdin", "bob", "+get"], 1, "standard input has ended"),
        (&["add", "--file", file.path(), "--generate", "b b", "+get"], 2, "1 to 64 bytes without spaces"),
        (&["add", "--file", file.path(), "bob", "+get", "--generate"], 2, "put options before NAME"),
        (&["passwd", "--file", file.path(), "--generate", "bob"], 1, "gannet user list shows the names"),
        (&["remove", "--file", file.path(), "bob"], 1, "gannet user list shows the names"),
        (&["list", "--file", "/nonexistent/users"], 1, "check --file"),
        (&["list", "--file", broken.path()], 1, "line 2: the line does not begin with 'user'; correct the line"),
    ] {
        let (status, out, err) = user(args, "");
        assert_eq!((status, &*out, err.lines().count()), (code, "", 1), "{args:?}: {err}");
        assert!(err.contains(reason) && !err.contains("secret"), "{args:?}: {err}");
    }
    // An edit that another one interrupts would lose its changes.
    let other = TempFile(format!("{}.new", file.path()).into());
    std::fs::write(other.path(), "").unwrap();
    let (status, _, err) = user(&["passwd", "--file", file.path(), "--generate", "ann"], "");
    assert!(status == 1 && err.contains("another edit is under way"), "{err}");
    assert_eq!(text(&file), "user ann on nopass\n");
}

#[test]
fn server_reads_the_file_at_once_and_the_user_logs_in() {
    let file = TempFile::new("users", "");
    let at = ["--file", file.path()];
    let root = [&["add"], &at[..], &["--password-stdin", "root", "role:admin"]].concat();
    assert_eq!(user(&root, "top\n").0, 0);
    let config = TempFile::new("users.toml", &format!("[listen]\nacl_file = \"{}\"\n", file.path()));
    let free = "127.0.0.1:0";
    let folder = certified("users");
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| folder.file(name));
    let listen = ["--memcached", free, "--resp", free, "--resp", "tls:127.0.0.1:0", "--admin", "none"];
    let files = ["--memory", "64MiB", "--tls-cert", &cert, "--tls-key", &key, config.path()];
    let mut serving = Serving::start(&[&listen[..], &files[..]].concat());
    let redis = serving.addr_behind("Redis clients connect to ").to_string();
    let secured = serving.addr_behind("Redis clients connect to ").to_string();
    let server = ["--server", &redis, "--as", "root", "--password-stdin"];
    let add = [&["add"], &at[..], &server, &["ann", "role:read", "~*"]].concat();
    let (code, _, err) = user(&add, "ann's own\nwrong\n");
    assert!(code == 1 && err.contains("WRONGPASS") && err.contains("the file is written"), "{err}");
    let passwd = [&["passwd"], &at[..], &server, &["ann"]].concat();
    let (code, _, err) = user(&passwd, "ann's\ntop\n");
    assert!(code == 0 && err.contains("has read the file"), "{err}");
    let over_tls = ["--server", &secured, "--as", "root", "--password-stdin", "--tls-ca", &ca];
    let (code, _, err) = user(&[&["passwd"], &at[..], &over_tls, &["ann"]].concat(), "ann's\ntop\n");
    assert!(code == 0 && err.contains("has read the file"), "{err}");
    let mut client = TcpStream::connect(&redis).unwrap();
    client.write_all(b"*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$5\r\nann's\r\nGET k\r\nSET k v\r\n").unwrap();
    let mut replies = String::new();
    while !replies.contains("NOPERM") {
        let mut part = [0; 512];
        let bytes = client.read(&mut part).unwrap();
        assert!(bytes > 0, "{replies}");
        replies.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
    }
    assert!(replies.contains("+OK\r\n$-1\r\n-NOPERM"), "{replies}");
    let (code, _, err) = user(&[&["remove"], &at[..], &["--server", "192.0.2.1:79", "ann"]].concat(), "");
    assert!(code == 1 && err.contains("on another host"), "{err}");
}

/// The terminal must not show the password, and shows what is typed again afterwards.
#[test]
fn typed_password_is_not_shown() {
    let file = TempFile::new("users", "");
    let line = format!("{} user add --file {} ann +get; stty -a", env!("CARGO_BIN_EXE_gannet"), file.path());
    let mut script = std::process::Command::new("script");
    script.args(["-qefc", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().expect("script of util-linux runs");
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = String::new();
    for prompt in ["New password of ann: ", "The same again: "] {
        while !shown.ends_with(prompt) {
            let mut byte = [0];
            output.read_exact(&mut byte).expect("the prompt");
            shown.push(byte[0].into());
        }
        input.write_all(b"typo\x15s3crets\x7f\n").unwrap();
    }
    output.read_to_string(&mut shown).unwrap();
    child.wait().unwrap();
    assert!(!shown.contains("s3cret") && !shown.contains("typo"), "{shown}");
    assert!(shown.contains("isig icanon iexten echo "), "{shown}");
    let users = command::resp::acl::users_file::UsersFile::parse(text(&file).as_bytes()).unwrap();
    assert_eq!(users.users().map(|user| user.passwords).collect::<Vec<_>>(), ["argon2id"]);
}
