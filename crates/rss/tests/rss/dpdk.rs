//! The hash against DPDK's `rte_softrss` (Debian: libdpdk-dev), which is compiled here if it is installed.

use corelane_testkit::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use corelane_rss::{Key, Toeplitz};

use crate::common::words;

const PROGRAM: &str = include_str!("softrss.c");
const TUPLES: usize = 20_000;

#[test]
fn dpdk_computes_the_same_hashes() {
    const NAME: &str = "dpdk_computes_the_same_hashes";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("softrss-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let probe = write(&folder, "probe.c", "#include <rte_thash.h>\nint main(void) { return 0; }\n");
    if !compile(&probe, &folder.join("probe")).is_some_and(|output| output.status.success()) {
        fs::remove_dir_all(folder).unwrap();
        return skip(NAME, "no C compiler, or libdpdk-dev is not installed");
    }
    let (source, program) = (write(&folder, "softrss.c", PROGRAM), folder.join("softrss"));
    let output = compile(&source, &program).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (questions, answers) = questions();
    let input = write(&folder, "tuples", &questions);
    let output = Command::new(&program).arg(&input).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(folder).unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(found.lines().count(), TUPLES);
    for (found, (question, answer)) in found.lines().zip(questions.lines().zip(answers)) {
        assert_eq!(found, answer, "{question}");
    }
}

/// Lines of a key and an input of the four lengths that tuples have, in hexadecimal, and the hashes.
fn questions() -> (String, Vec<String>) {
    let mut word = words(99);
    let mut hashers = vec![Toeplitz::new(&Key::MICROSOFT)];
    hashers.extend((0..9).map(|_| Toeplitz::new(&Key::random(40, &mut word).unwrap())));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut lines = String::new();
    let mut answers = Vec::new();
    for at in 0..TUPLES {
        let toeplitz = &hashers[at % hashers.len()];
        let input: Vec<u8> = (0..[8, 12, 32, 36][at / 10 % 4]).map(|_| word() as u8).collect();
        lines += &format!("{} {}\n", hex(toeplitz.key().bytes()), hex(&input));
        answers.push(format!("{:08x}", toeplitz.hash(&input).0));
    }
    (lines, answers)
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn compile(source: &Path, program: &Path) -> Option<Output> {
    // Where Debian puts the headers, for all machines and for one kind.
    let of_machine = format!("-I/usr/include/{}-linux-gnu/dpdk", std::env::consts::ARCH);
    let includes = ["-I/usr/include/dpdk", &of_machine];
    Command::new("cc").args(["-O1", "-march=native", "-o"]).arg(program).arg(source).args(includes).output().ok()
}
