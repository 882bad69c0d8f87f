//! What is made from the flags: manual pages and completions.

use crate::common::*;
use std::process::Command;

fn corelane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_corelane"))
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = Scratch::new();
    let output = corelane().args(["generate", "manual"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let help = corelane().arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // What is said of a command goes on deeper, below its name.
    let begins = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = commands.lines().filter(begins).filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let pages: Vec<String> =
        names.map(|name| std::fs::read_to_string(folder.path().join(format!("corelane-{name}.1"))).unwrap()).collect();
    assert!(pages.len() > 3, "{commands}");
    let first = std::fs::read_to_string(folder.path().join("corelane.1")).unwrap();
    let name = first.split(".SH NAME\n").nth(1).unwrap().lines().next().unwrap();
    assert!(name.starts_with("corelane \\- ") && name.len() > 40, "what it is, for apropos(1): {name}");
    assert!(pages.iter().any(|page| page.contains("\\-\\-driver")), "the flags stand in the pages");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let output = corelane().args(["generate", "manual", "/there/is/none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/there/is/none"));
}

#[test]
fn a_shell_completes_commands_flags_values_and_processes() {
    let server = Server::start(&["--lanes", "1", TCP]);
    let folder = Scratch::new();
    let output = corelane().args(["generate", "completions", "bash"]).output().unwrap();
    let file = folder.path().join("corelane");
    std::fs::write(&file, output.stdout).unwrap();
    let script = r#"
        . "$0"
        complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMPREPLY=(); _clap_complete_corelane corelane "${!#}" ""; echo "${COMPREPLY[@]}"; }
        complete_words corelane ser
        complete_words corelane serve --dri
        complete_words corelane serve --driver u
        complete_words corelane serve --limit idle
        complete_words corelane load ht
        complete_words corelane stat --pid ""
    "#;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_corelane")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).arg(&file).env("PATH", path).env("CORELANE_RUN_DIR", server.run.path());
    let output = bash.output().unwrap();
    let due = format!("serve\n--driver\nuring\nidle_limit=\nhttp\n{}\n", server.pid());
    assert_eq!(String::from_utf8_lossy(&output.stdout), due, "{}", String::from_utf8_lossy(&output.stderr));
}
