//! What is made from the flags: manual pages and completions.

use crate::common::Scratch;
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
    let names = commands.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let pages: Vec<String> =
        names.map(|name| std::fs::read_to_string(folder.path().join(format!("corelane-{name}.1"))).unwrap()).collect();
    assert!(pages.len() > 3, "{commands}");
    assert!(pages.iter().any(|page| page.contains("\\-\\-driver")), "the flags stand in the pages");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let output = corelane().args(["generate", "manual", "/there/is/none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/there/is/none"));
}

#[test]
fn a_shell_completes_commands_and_flags() {
    let folder = Scratch::new();
    let output = corelane().args(["generate", "completions", "bash"]).output().unwrap();
    let file = folder.path().join("corelane");
    std::fs::write(&file, output.stdout).unwrap();
    let script = r#"
        . "$0"
        complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _corelane corelane "${!#}" ""; echo "${COMPREPLY[@]}"; }
        complete_words corelane ser
        complete_words corelane serve --dri
    "#;
    let output = Command::new("bash").args(["-c", script]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "serve\n--driver\n", "{}", String::from_utf8_lossy(&output.stderr));
}
