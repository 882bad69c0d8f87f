use super::queue;
use corelane_event::{Change, Filter, Flags, notes};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const ESRCH: i32 = 3;
const ENOTSUP: i32 = 95;

#[test]
fn a_childs_end_is_told_and_left_to_its_parent() {
    let queue = queue();
    let mut child = Command::new("sh").args(["-c", "read line; exit 7"]).stdin(Stdio::piped()).spawn().unwrap();
    queue.ok(Change::ended(child.id()).cookie(5));
    assert!(queue.now().is_empty());
    drop(child.stdin.take());
    let event = queue.one();
    assert_eq!((event.data, event.notes, event.cookie), (7 << 8, notes::EXIT, 5));
    assert!(event.flags.contains(Flags::EOF | Flags::ONESHOT));
    assert_eq!((queue.registered(), child.wait().unwrap().code()), (0, Some(7)));
}

#[test]
fn one_that_has_ended_is_told_at_once_and_one_that_is_gone_is_refused() {
    let queue = queue();
    let mut child = Command::new("sh").args(["-c", "kill -9 $$"]).stdout(Stdio::piped()).spawn().unwrap();
    // Its end of the pipe closes when it has ended.
    child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    queue.ok(Change::ended(child.id()));
    assert_eq!(queue.one().data, 9);
    child.wait().unwrap();
    assert_eq!(queue.refused(Change::ended(child.id())), ESRCH);
    assert_eq!(queue.refused(Change::add(u64::MAX, Filter::Process)), ESRCH);
}

#[test]
fn a_process_that_is_no_child_is_told_too() {
    let queue = queue();
    let script = "sh -c 'echo $$; read line; exit 3' <&3 & wait";
    let mut parent = Command::new("sh")
        .args(["-c", &format!("exec 3<&0; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    let mut output = std::io::BufReader::new(parent.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut id).unwrap();
    queue.ok(Change::ended(id.trim().parse().unwrap()));
    drop(parent.stdin.take());
    let event = queue.one();
    assert_eq!(event.notes, notes::EXIT);
    // Kernels before 6.15 do not tell the status of a process that is no child.
    assert!([0, 3 << 8].contains(&event.data), "{event:?}");
    parent.wait().unwrap();
}

/// Where the kernel does not tell of forks: the conformance suite forces that.
#[test]
fn forks_are_told_or_refused_in_words() {
    let queue = queue();
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-c", "read x; true & wait; read x"]).stdin(std::process::Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    match queue.change(&Change { notes: notes::FORK, ..Change::ended(shell.id()) }) {
        Ok(()) => {
            assert!(queue.now().is_empty());
            input.write_all(b"\n").unwrap();
            assert_eq!((queue.one().notes, queue.registered()), (notes::FORK, 1));
        }
        Err(refused) => {
            assert_eq!(refused.number, ENOTSUP);
            assert!(refused.to_string().contains("NOTE_EXIT"));
            assert!(!corelane_os::testing::tells_of_processes(), "this machine's kernel tells of forks");
            corelane_os::testing::skip("forks_are_told_or_refused_in_words", "the kernel does not tell this process of forks");
        }
    }
    drop(input);
    shell.wait().unwrap();
}
