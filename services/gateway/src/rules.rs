//! Rules, in the language of ipfw(8): a list of commands in the file itself, or a file of them, one a line.

use crate::keys::{Keys, Wrong, list, text, word};
use corelane::Error;
use corelane::lanes::gateway::Gateway;
use corelane::lanes::gateway::rules::{self, Execution, Limits, Rules, language};
use corelane::service::entry::ReadFile;

/// Reads `[rules]` into the gateway; returns the file that it names.
pub fn read(keys: &mut Keys<'_>, file: &ReadFile, gateway: &mut Gateway) -> Result<Option<ReadFile>, Error> {
    let wrong = |wrong: Wrong| file.wrong(wrong.at, wrong.why);
    let Some(value) = keys.take("rules") else { return Ok(None) };
    let mut own = Keys::of(value, "rules").map_err(wrong)?;
    let allows = own.take("default").map_or(Ok(true), |value| word(value, &[("allow", true), ("deny", false)]));
    let executions = [("tree", Execution::Tree), ("skipto", Execution::Skipto), ("flat", Execution::Flat)];
    let execution = own.take("execution").map_or(Ok(Execution::Tree), |value| word(value, &executions));
    let (named, inline) = (own.take("file"), own.take("list"));
    own.end().map_err(wrong)?;
    gateway.rules = Rules::new(allows.map_err(wrong)?, Limits::default());
    gateway.execution = execution.map_err(wrong)?;
    let read = named.map(|value| {
        let name = text(value, "the name of a file, such as \"gateway.rules\"").map_err(wrong)?;
        let read = file.beside(name)?;
        apply_file(&mut gateway.rules, &read).map(|()| read)
    });
    let read = read.transpose()?;
    if let Some(value) = inline {
        let example = "commands such as [\"add 100 deny ip from any to 10.0.0.0/8\"]";
        for one in list(value, example).map_err(wrong)? {
            let command = text(one, example).map_err(wrong)?;
            apply(&mut gateway.rules, command, 1).map_err(|why| match why {
                // Behind the mark that begins the text.
                rules::Error::Syntax { place: within, what, remedy } => {
                    let skipped: usize = command.chars().take(within.column.saturating_sub(1)).map(char::len_utf8).sum();
                    file.wrong(one.span().start + 1 + skipped, format!("{what}; {remedy}"))
                }
                other => file.wrong(one.span().start, other),
            })?;
        }
    }
    Ok(read)
}

fn apply(rules: &mut Rules, command: &str, line: usize) -> Result<(), rules::Error> {
    rules.apply(language::command(command, line)?).map(drop)
}

/// Carries out each line of a file; or what a shell script of such commands does, if that is what it is.
fn apply_file(rules: &mut Rules, file: &ReadFile) -> Result<(), Error> {
    let wrong = |line: usize, why: rules::Error| match why {
        rules::Error::Syntax { place, what, remedy } => file.wrong_at(place.line, place.column, format!("{what}; {remedy}")),
        other => file.wrong_at(line, 1, other),
    };
    if file.text().starts_with("#!") {
        let commands = language::import(file.text()).map_err(|why| wrong(1, why))?;
        return commands
            .into_iter()
            .try_for_each(|(line, command)| rules.apply(command).map(drop).map_err(|why| wrong(line, why)));
    }
    let lines = (1..).zip(file.text().lines()).filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    lines.into_iter().try_for_each(|(number, line)| apply(rules, line, number).map_err(|why| wrong(number, why)))
}
