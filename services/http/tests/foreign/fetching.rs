//! What curl and wget get of files, whole and in parts.

use std::path::Path;
use std::process::{Command, Output};

pub fn run(program: &str, at: &Path, arguments: &[&str]) -> Output {
    Command::new(program).current_dir(at).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

pub fn curl(arguments: &[&str]) -> Vec<u8> {
    let output = run("curl", Path::new("/"), &[&["-sS", "--max-time", "60"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

pub fn large() -> Vec<u8> {
    (0..5_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// `site` is served, and has a directory `sub`.
pub fn curl_gets_whole_files_and_parts(site: &Path, url: impl Fn(&str) -> String) {
    let large = large();
    std::fs::write(site.join("a.txt"), "0123456789").unwrap();
    std::fs::write(site.join("large.bin"), &large).unwrap();
    for _ in 0..2 {
        assert_eq!(curl(&[&url("/a.txt")]), b"0123456789");
        assert_eq!(curl(&["-r", "2-4", &url("/a.txt")]), b"234");
        assert!(curl(&[&url("/large.bin")]) == large);
        assert!(curl(&["-r", "-3000000", &url("/large.bin")]) == large[2_000_000..]);
    }
    let parts = curl(&["-r", "0-1,1000000-1000001", &url("/large.bin")]);
    let has = |part: &[u8]| parts.windows(part.len()).any(|window| window == part);
    assert!(has(&large[..2]) && has(&large[1_000_000..1_000_002]) && has(b"Content-Range: bytes 1000000-1000001/5000000"));
    assert!(String::from_utf8(curl(&[&url("/sub/")])).unwrap().contains("<title>/sub/</title>"));
    assert!(curl(&["-L", &url("/sub")]).starts_with(b"<!doctype"));
}

/// `site` is served, and `got` is the client's.
pub fn wget_goes_on_where_it_stopped(site: &Path, got: &Path, url: impl Fn(&str) -> String) {
    let large = large();
    std::fs::write(site.join("large.bin"), &large).unwrap();
    std::fs::write(got.join("large.bin"), &large[..1_234_567]).unwrap();
    let output = run("wget", got, &["-c", "-nv", &url("/large.bin")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(got.join("large.bin")).unwrap() == large);
}
