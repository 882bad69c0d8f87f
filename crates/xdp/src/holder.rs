//! Who has an interface's program: the process that has it open, as the kernel shows it (proc_pid_fdinfo(5)).

use corelane_os::kernel_files::text;
use std::fs;

/// The process that has the program of this number, by its number and name; none if it is not to be seen.
pub fn of_program(program: u32) -> Option<String> {
    let line = format!("prog_id:\t{program}");
    let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let holder = { processes }.find(|process| has(*process, &line))?;
    let name = text(&format!("/proc/{holder}/comm")).unwrap_or_default();
    Some(format!("process {holder} ({})", name.trim()))
}

/// Whether one of the process's descriptors has this line.
fn has(process: u32, line: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fdinfo")) else { return false };
    // Others are of no interest, and one that has just been closed is not there.
    let mut shown = descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    shown.any(|words| words.lines().any(|shown| shown == line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_a_program_that_is_not_there() {
        assert_eq!(of_program(u32::MAX), None);
    }
}
