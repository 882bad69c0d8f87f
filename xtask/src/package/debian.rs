//! The Debian package (deb-control(5), deb-postinst(5), Debian Policy 4.6).

use super::parts::{Parts, said};
use super::staged::Staged;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shell, and where its completions lie.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/corelane"),
    ("zsh", "usr/share/zsh/vendor-completions/_corelane"),
    ("fish", "usr/share/fish/vendor_completions.d/corelane.fish"),
];

/// Texts of the project that lie beside the program, with those of the folders [`PAGES`], [`MANIFESTS`], [`ALERTS`] and [`RESULTS`].
const TEXTS: &[&str] = &["README.md", "LOAD.md", "CHANGELOG.md", "ARCHITECTURE.md", "BENCHMARKS.md", "SECURITY.md"];

/// Where the pages are to which these texts refer: beneath them, here and where they are installed, so that links work in both.
const PAGES: &str = "docs";

/// Manifests for Kubernetes, of which a page tells.
const MANIFESTS: &str = "docs/kubernetes";

/// Rules of alerts for Prometheus, likewise.
const ALERTS: &str = "docs/prometheus";

/// Tables and plots of benchmarks, to which their page links.
const RESULTS: &str = "bench/results";

/// What dpkg runs.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// What a machine's owner may change, so that no upgrade takes it away.
const SETTINGS: &[(&str, &str)] = &[("corelane.toml", "etc/corelane/corelane.toml")];

/// Who answers for the package. The project has no address of its own.
const MAINTAINER: &str = "Corelane developers <corelane@example.org>";

/// What is meant, though lintian(1) thinks that it is not.
const OVERRIDES: &str = "\
# Reports of stalls, panics and profiles name functions: their names stay in the program.
corelane: unstripped-binary-or-object [usr/bin/corelane]
";

/// Writes the package.
pub fn package(parts: &Parts<'_>) -> Result<PathBuf> {
    let tree = Staged::new(parts.into.join("debian"))?;
    tree.copy(parts.program, "usr/bin/corelane", 0o755)?;
    add_manual(parts, &tree)?;
    for (shell, place) in COMPLETIONS {
        let lines = said(Command::new(parts.program).args(["generate", "completions", shell]))?;
        tree.write(place, (lines + "\n").as_bytes(), 0o644)?;
    }
    for text in texts(parts.root)? {
        tree.copy(&parts.root.join(&text), &format!("usr/share/doc/corelane/{text}"), 0o644)?;
    }
    tree.write("usr/share/doc/corelane/copyright", copyright(parts.root)?.as_bytes(), 0o644)?;
    tree.write("usr/share/doc/corelane/changelog.gz", &changelog(parts)?, 0o644)?;
    tree.write("usr/share/lintian/overrides/corelane", OVERRIDES.as_bytes(), 0o644)?;
    let packaging = parts.root.join("packaging");
    tree.copy(&packaging.join("corelane.service"), "usr/lib/systemd/system/corelane.service", 0o644)?;
    for (file, place) in SETTINGS {
        tree.copy(&packaging.join(file), place, 0o644)?;
    }
    add_control(parts, &tree)?;
    let file = parts.into.join(format!("corelane_{}_{}.deb", parts.version, parts.architecture));
    said(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(tree.path()).arg(&file))?;
    Ok(file)
}

/// All texts, each by its place below `root`.
fn texts(root: &Path) -> Result<Vec<String>> {
    let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    for place in [PAGES, MANIFESTS, ALERTS, RESULTS] {
        let folder = root.join(place);
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            texts.extend(is_text(&name).then(|| format!("{place}/{name}")));
        }
    }
    texts.sort();
    Ok(texts)
}

/// Whether pages link to a file of this name, and bring it along.
fn is_text(name: &str) -> bool {
    [".md", ".svg", ".txt", ".yaml", ".yml"].iter().any(|end| name.ends_with(end))
}

/// Manual pages, packed as Debian's are.
fn add_manual(parts: &Parts<'_>, tree: &Staged) -> Result<()> {
    let folder = tree.folder("usr/share/man/man1", 0o755)?;
    said(Command::new(parts.program).args(["generate", "manual"]).arg(&folder))?;
    let pages: Vec<PathBuf> = std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    said(Command::new("gzip").args(["-9", "-n"]).args(pages)).map(drop)
}

/// Both licences: one whole, and of the other where Debian has it (Debian Policy 12.5), in the form that machines read (copyright-format 1.0).
fn copyright(root: &Path) -> Result<String> {
    let licence = std::fs::read_to_string(root.join("LICENSE-MIT")).context("cannot read LICENSE-MIT")?;
    let holder = licence.lines().find(|line| line.starts_with("Copyright")).context("LICENSE-MIT names no holder")?;
    let indented: String =
        licence.lines().map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nCopyright: {}\nLicense: MIT or Apache-2.0\n\n\
         License: MIT\n{indented}\nLicense: Apache-2.0\n On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\n",
        holder.trim_start_matches("Copyright").trim()
    ))
}

/// The change that this package is (Debian Policy 4.4); CHANGELOG.md beside it says what changed.
fn changelog(parts: &Parts<'_>) -> Result<Vec<u8>> {
    let changed = said(Command::new("date").args(["-R", "-u", "-r"]).arg(parts.program))?;
    let version = &parts.version;
    let text = format!(
        "corelane ({version}) unstable; urgency=medium\n\n  * Version {version}: see CHANGELOG.md.\n\n -- {MAINTAINER}  {changed}\n"
    );
    let file = parts.into.join("changelog");
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let packed = Command::new("gzip").args(["-9", "-n", "-c"]).arg(&file).output().context("cannot start gzip")?;
    anyhow::ensure!(packed.status.success(), "gzip failed: {}", packed.status);
    Ok(packed.stdout)
}

fn add_control(parts: &Parts<'_>, tree: &Staged) -> Result<()> {
    let kilobytes = said(Command::new("du").arg("-sk").arg(tree.path()))?;
    let kilobytes = kilobytes.split_whitespace().next().unwrap_or_default();
    let (version, architecture, depends) = (&parts.version, &parts.architecture, depends(parts, tree)?);
    let control = format!(
        "Package: corelane\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kilobytes}\nDepends: {depends}\nSection: net\nPriority: optional\n\
         Description: per-core network services\n One lane per core serves its share of the traffic, and shares nothing\n \
         with the others: echo, ONC RPC, files and applications over HTTP, and a\n load generator for each.\n"
    );
    for script in SCRIPTS {
        tree.copy(&parts.root.join("packaging/debian").join(script), &format!("DEBIAN/{script}"), 0o755)?;
    }
    let settings: String = SETTINGS.iter().map(|(_, place)| format!("/{place}\n")).collect();
    if !settings.is_empty() {
        tree.write("DEBIAN/conffiles", settings.as_bytes(), 0o644)?;
    }
    tree.write("DEBIAN/control", control.as_bytes(), 0o644)
}

/// The packages with the libraries that the program loads, as dpkg-shlibdeps(1) finds them from its symbols.
fn depends(parts: &Parts<'_>, tree: &Staged) -> Result<String> {
    let place = Staged::new(parts.into.join("shlibdeps"))?;
    place.write("debian/control", b"Source: corelane\n\nPackage: corelane\nArchitecture: any\n", 0o644)?;
    let mut command = Command::new("dpkg-shlibdeps");
    let line = said(command.current_dir(place.path()).arg("-O").arg("-e").arg(tree.path().join("usr/bin/corelane")))?;
    Ok(line.trim_start_matches("shlibs:Depends=").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_texts_link_to_goes_along() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
        let texts = texts(root).unwrap();
        let mut links = 0;
        for text in texts.iter().filter(|text| text.ends_with(".md")) {
            let folder = Path::new(text).parent().expect("a file is in a folder");
            for link in links_of(&root.join(text)) {
                let target = folder.join(&link);
                assert!(texts.iter().any(|known| Path::new(known) == target), "{text} links to {link}, which stays behind");
                links += 1;
            }
        }
        assert!(links > 0, "links are found");
    }

    #[test]
    fn every_page_is_a_chapter_of_the_book() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
        let mut chapters = links_of(&root.join(PAGES).join("SUMMARY.md"));
        chapters.sort();
        let pages = texts(root).unwrap().into_iter().filter_map(|text| Some(text.strip_prefix("docs/")?.to_owned()));
        let pages: Vec<String> = pages.filter(|page| page.ends_with(".md") && page != "SUMMARY.md").collect();
        assert_eq!(chapters, pages);
    }

    #[test]
    fn links_into_a_page_lead_to_a_heading() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
        let mut anchors = 0;
        for text in texts(root).unwrap().into_iter().filter(|text| text.ends_with(".md")) {
            let words = std::fs::read_to_string(root.join(&text)).unwrap();
            for link in words.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let Some((page, anchor)) = link.split_once('#').filter(|_| !link.contains("://")) else { continue };
                let page = if page.is_empty() { PathBuf::from(&text) } else { Path::new(&text).with_file_name(page) };
                let headings = headings(&std::fs::read_to_string(root.join(&page)).unwrap());
                assert!(headings.iter().any(|heading| heading == anchor), "{text}: {} has no heading #{anchor}", page.display());
                anchors += 1;
            }
        }
        assert!(anchors > 0, "anchors are found");
    }

    #[test]
    fn headings_are_called_as_pages_call_them() {
        let page = "# The `a-b`: Who's who?\n\n```sh\n# no heading\n```\n## Tests\n#no heading\n## Tests\n";
        assert_eq!(headings(page), ["the-a-b-whos-who", "tests", "tests-1"]);
    }

    /// The names of a page's headings: in lower case, words apart by `-`, other signs left out, and a number where there was one before.
    fn headings(page: &str) -> Vec<String> {
        let (mut names, mut plain, mut is_code) = (Vec::new(), Vec::new(), false);
        for line in page.lines() {
            is_code ^= line.starts_with("```");
            let heading = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#') && !is_code);
            let Some(heading) = heading else { continue };
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
            let name = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let before = plain.iter().filter(|other| **other == name).count();
            names.push(if before == 0 { name.clone() } else { format!("{name}-{before}") });
            plain.push(name);
        }
        names
    }

    /// The pages, pictures, tables and manifests that a text links to.
    fn links_of(text: &Path) -> Vec<String> {
        let words = std::fs::read_to_string(text).unwrap();
        let links = words.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        links.filter(|link| is_text(link)).map(str::to_owned).collect()
    }
}
