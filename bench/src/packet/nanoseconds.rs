//! What the packet path costs without a wire: checksums, reassembly, and the policies of dispatch. The programs are the crates' own.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::cells::NANOSECONDS;
use xtask::workspace::cargo;

/// Package and program of each.
const PROGRAMS: [[&str; 2]; 2] = [["corelane-wire", "checksum"], ["corelane-isr", "packets"]];

/// The lines of all programs.
///
/// # Errors
/// When one cannot be built, or fails.
pub fn run(root: &Path) -> Result<String> {
    let mut lines = vec![NANOSECONDS.to_owned()];
    for [package, program] in PROGRAMS {
        let mut command = cargo();
        command.args(["bench", "--quiet", "--package", package, "--bench", program]).current_dir(root);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_context(|| format!("{command:?}"))?;
        ensure!(output.status.success(), "{command:?}: {}; its own message is above", output.status);
        lines.extend(String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_where_they_are_looked_for() {
        for [package, program] in PROGRAMS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(package.trim_start_matches("corelane-"));
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
            assert!(manifest.contains(&format!("name = \"{package}\"")) && manifest.contains(&format!("name = \"{program}\"")));
            assert!(folder.join("benches").join(program).with_extension("rs").is_file(), "{program} of {package}");
        }
    }
}
