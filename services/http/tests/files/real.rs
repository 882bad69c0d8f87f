//! Files of a real system, under clients of our own: links that are swapped in, files that may not be read, TLS.

use super::clients::{Site, curl, large, on_each_driver, url};
use corelane::Lanes;
use corelane::lanes::DriverChoice;
use corelane_http::{ENTRY, Files, Http};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// One answer, on a connection of its own.
fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_link_that_is_swapped_in_while_a_name_is_resolved_leads_nowhere() {
    on_each_driver(|site, running| {
        let (root, outside) = (site.0.path().join("site"), site.0.path().join("outside"));
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("x.txt"), "secret").unwrap();
        let [directory, link, name] = ["directory", "link", "name"].map(|name| root.join(name));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("x.txt"), "public").unwrap();
        symlink(&outside, &link).unwrap();
        std::fs::rename(&directory, &name).unwrap();
        let (address, is_over) = (running.address().to_string(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for (from, to) in [(&name, &directory), (&link, &name), (&name, &link), (&directory, &name)] {
                        std::fs::rename(from, to).unwrap();
                    }
                }
            });
            let mut public = 0;
            for _ in 0..3_000 {
                let answer = ask(&address, "/name/x.txt");
                assert!(!answer.contains("secret"), "{answer}");
                public += usize::from(answer.ends_with("public"));
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(public > 0, "it is there now and then");
        });
        assert!(ask(&address, "/name/x.txt").ends_with("public"));
    });
}

/// Set for the process that serves as nobody.
const AS_NOBODY: &str = "CORELANE_TEST_AS_NOBODY";

/// Serves the directory that the environment names, says where, and ends with its input.
#[test]
fn serves_as_nobody() {
    let Ok(root) = std::env::var(AS_NOBODY) else { return };
    let lanes = Lanes::per_core().lanes(1).driver(DriverChoice::Epoll);
    let running = lanes.serve("tcp://127.0.0.1:0", move |_| Http::new(Files::new(&root))).unwrap().start().unwrap();
    println!("\nat {}", running.address());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    running.drain();
    running.wait().unwrap();
}

/// Root may read everything, so another user's process serves: this program once more.
#[test]
fn what_the_server_may_not_read_is_forbidden() {
    let site = Site::new();
    let root = site.0.path().join("site");
    for name in ["open.txt", "closed.txt", "sub/inner.txt"] {
        site.write(name, "content");
    }
    let set = |path: &std::path::Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    for (path, mode) in [(site.0.path(), 0o755), (&root, 0o755), (&root.join("closed.txt"), 0), (&root.join("sub"), 0)] {
        set(path, mode);
    }
    set(&root.join("open.txt"), 0o644);
    // By this name it is found though its directories are closed to nobody.
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "files::real::serves_as_nobody", "--nocapture"]).env(AS_NOBODY, &root);
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
    if std::fs::read(root.join("closed.txt")).is_ok() {
        command.uid(65_534).gid(65_534);
    }
    let mut child = command.spawn().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let address = loop {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "it ended before it served");
        if let Some(address) = line.trim_end().strip_prefix("at ") {
            break address.to_owned();
        }
    };
    for (path, code) in [("/open.txt", "200"), ("/closed.txt", "403"), ("/sub/inner.txt", "403"), ("/sub/", "403")] {
        let answer = ask(&address, path);
        assert_eq!(answer.split(' ').nth(1), Some(code), "{path}: {answer}");
    }
    set(&root.join("closed.txt"), 0o644);
    assert!(ask(&address, "/closed.txt").ends_with("content"));
    drop(child.stdin.take());
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    set(&root.join("sub"), 0o755);
}

#[test]
fn large_files_come_whole_behind_tls_though_others_break_off() {
    let site = Site::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| site.0.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    // Several windows, and a last one that is not whole.
    let large = large();
    site.write("large.bin", &large);
    let root = site.0.path().join("site");
    let place =
        format!("https://127.0.0.1:0?root={}&certificate={}&key={}", root.display(), certificate.display(), key.display());
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let lanes = Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap();
        let running = lanes.start().unwrap();
        let url = format!("https://localhost:{}/large.bin", running.address().to_string().rsplit(':').next().unwrap());
        let veiled = ["--cacert", certificate.to_str().unwrap(), "-sS", "--max-time", "60"];
        let broken: Vec<_> = (0..4)
            .map(|_| {
                let mut one = Command::new("curl").args(veiled).arg(&url).stdout(Stdio::piped()).spawn().unwrap();
                // It reads some of it, and is gone in the middle.
                one.stdout.take().unwrap().read_exact(&mut vec![0; 1_300_000]).unwrap();
                one.kill().unwrap();
                one
            })
            .collect();
        // Over TLS what is https may say so.
        assert!(curl(&[&veiled[..], &["--request-target", "https://localhost/large.bin", &url]].concat()) == large);
        for _ in 0..2 {
            assert!(curl(&[&veiled[..], &[&url]].concat()) == large, "byte for byte");
            assert!(curl(&[&veiled[..], &["-r", "999000-3145728", &url]].concat()) == large[999_000..=3_145_728]);
        }
        for mut one in broken {
            one.wait().unwrap();
        }
        running.drain();
        running.wait().unwrap();
    }
}

#[test]
fn of_a_directory_with_very_many_names_the_first_are_listed() {
    on_each_driver(|site, running| {
        (0..10_500_u32).for_each(|number| site.write(&format!("sub/{:05}", number * 7_919 % 10_500), ""));
        let page = String::from_utf8(curl(&[&url(running, "/sub/")])).unwrap();
        let names: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("<li><a href=\"./")?.get(..5)).collect();
        assert!(
            names.len() == 10_000 && names.iter().enumerate().all(|(at, name)| *name == format!("{at:05}")),
            "{}",
            names.len()
        );
        assert!(page.contains("the first 10000 by name"), "{}", &page[page.len() - 100..]);
    });
}
