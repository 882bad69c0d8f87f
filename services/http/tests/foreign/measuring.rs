//! Programs that measure, and what each says when all was well.

use corelane_testkit::{is_installed, skip};
use std::net::SocketAddr;
use std::process::Command;

/// How each is asked to ask.
struct Program {
    name: &'static str,
    package: &'static str,
    arguments: &'static [&'static str],
    /// What it says, without the space in it, when all was well, and what it must not say.
    right: &'static [&'static str],
    wrong: &'static [&'static str],
}

const PROGRAMS: [Program; 5] = [
    Program {
        name: "ab",
        package: "apache2-utils",
        arguments: &["-q", "-k", "-n", "2000", "-c", "8", "URL"],
        right: &["Completerequests:2000", "Failedrequests:0"],
        wrong: &["Non-2xx"],
    },
    Program {
        name: "wrk",
        package: "wrk",
        arguments: &["-t1", "-c8", "-d1", "URL"],
        right: &["requestsin"],
        wrong: &["Socketerrors", "Non-2xx", "\n0requestsin"],
    },
    Program {
        name: "h2load",
        package: "nghttp2-client",
        arguments: &["--h1", "-n2000", "-c8", "URL"],
        right: &["2000succeeded,0failed,0errored", "20002xx"],
        wrong: &[],
    },
    Program {
        name: "siege",
        package: "siege",
        arguments: &["-b", "-q", "-c4", "-r100", "--no-parser", "URL"],
        right: &["\"successful_transactions\":400", "\"failed_transactions\":0"],
        wrong: &[],
    },
    Program {
        name: "httperf",
        package: "httperf",
        arguments: &["--server=127.0.0.1", "--port=PORT", "--uri=PATH", "--num-conns=200", "--num-calls=5"],
        right: &["replies1000", "Errors:total0", "2xx=1000"],
        wrong: &[],
    },
];

/// Has each that is installed ask for this path.
pub fn find_no_fault(test: &str, address: SocketAddr, path: &str) {
    let home = tempfile::tempdir().unwrap();
    let (url, port) = (format!("http://{address}{path}"), address.port().to_string());
    for Program { name, package, arguments, right, wrong } in PROGRAMS {
        if !is_installed(name) {
            skip(test, &format!("there is no {name}: apt-get install -y {package}"));
            continue;
        }
        let told = arguments.iter().map(|word| word.replace("URL", &url).replace("PORT", &port).replace("PATH", path));
        let output = Command::new("timeout").arg("60").arg(name).args(told).env("HOME", home.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let said: String = text.chars().filter(|one| *one == '\n' || !one.is_whitespace()).collect();
        assert!(output.status.success(), "{name}: {}: {text}", output.status);
        assert!(right.iter().all(|words| said.contains(words)), "{name}: {text}");
        assert!(!wrong.iter().any(|words| said.contains(words)), "{name}: {text}");
    }
}
