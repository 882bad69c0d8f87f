//! What tests need and is not there.

/// The packages of the programs that are not there.
pub fn missing(programs: &[(&'static str, &'static str)], is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    programs.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}

/// Lets `install` install what is `absent`; returns what still is.
pub fn installed(
    absent: impl Fn() -> Vec<&'static str>,
    install: impl FnOnce(&[&str]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<&'static str>> {
    let packages = absent();
    if packages.is_empty() {
        return Ok(packages);
    }
    install(&packages)?;
    Ok(absent())
}
