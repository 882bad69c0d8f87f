//! Changes to the packets of running lanes, from outside. Without the feature `packets`, `without::changes` stands in its place.

use crate::admin::dispatch::{self, Asked};
use crate::lanes::frames::Placing;
use crate::lanes::receiving::UserFraction;
use corelane_isr::polling;
use corelane_os::report;

/// Carries out a request of [`dispatch`], on all lanes of a process that may have none.
pub(crate) fn change(lanes: Option<&Placing>, receiving: Option<&UserFraction>, request: &str) -> Result<String, String> {
    if request == dispatch::POLLED {
        return Ok(receiving.map_or_else(String::new, |receiving| receiving.get().to_string()));
    }
    let change: dispatch::Change = request.parse()?;
    match change.into() {
        Asked::Policy(policy) => {
            lanes.ok_or("no lane of this process has packets: start it with `serve --packet`")?.tell_all(&policy)
        }
        Asked::Polling(change) => change_polling(lanes, receiving, change),
    }
}

/// Changes what the network may take: of lanes that poll, and of the kernel's threads that receive beside lanes. These have the user fraction alone.
fn change_polling(lanes: Option<&Placing>, receiving: Option<&UserFraction>, change: polling::Change) -> Result<String, String> {
    let polling = lanes.and_then(|lanes| Some((lanes, lanes.polling.as_ref()?)));
    if polling.is_none() && receiving.is_none() {
        return Err("nothing polls here: start it with `--packet INTERFACE,..,poll` or `--receive-threads`".to_owned());
    }
    if matches!(change, polling::Change::OtherPrograms(_)) {
        return Err("other_programs is set at the start alone, because lanes get their weight then: `--packet INTERFACE,..,poll,other_programs=1`".to_owned());
    }
    let told = polling.map(|(lanes, settings)| lanes.change_settings(settings, change)).transpose()?;
    match (receiving, change) {
        (Some(receiving), polling::Change::Knob(polling::Knob::UserFrac, value)) => {
            let value = u8::try_from(value).map_err(|_| format!("user_frac is 0 to 99, not {value}"))?;
            receiving.set(value).map_err(|why| why.to_string())?.into_iter().for_each(report::line);
        }
        (Some(_), _) if told.is_none() => return Err("threads that receive have user_frac alone".to_owned()),
        _ => {}
    }
    Ok(told.unwrap_or_default())
}
