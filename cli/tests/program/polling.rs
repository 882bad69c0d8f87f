//! `corelane polling`: what lanes over frames, and threads that receive beside lanes, give to packets.

use crate::common::*;
use crate::packet::{can_run, comes_back, echoes, ends};
use serde_json::{Value, json};
use std::process::Command;

on_each_driver!(
    d_02_knobs_are_shown_and_changed_while_packets_come,
    d_03_the_originals_controller_ticks_on_lanes,
    what_polling_is_set_to_at_the_start_is_checked
);

const PORT: &str = "va,ip=10.9.0.2/24,ip=fd09::2/64,poll";

/// Has the operator's command carried out; what it printed, or said.
pub fn polling(server: &Server, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(PROGRAM);
    command.args(["polling", "--json"]).args(arguments).env("CORELANE_RUN_DIR", server.run.path());
    let done = output(&mut command);
    match done.status.success() {
        true => Ok(serde_json::from_slice(&done.stdout).unwrap()),
        false => Err(String::from_utf8(done.stderr).unwrap()),
    }
}

fn d_02_knobs_are_shown_and_changed_while_packets_come(driver: Driver) {
    let test = "polling::d_02_knobs_are_shown_and_changed_while_packets_come";
    let Some(server) = echoes(driver, test, "", &format!("{PORT},user_frac=40,each_burst=32")) else { return };
    let shown = polling(&server, &[]).unwrap();
    let set = json!({ "controller": "timed", "user_frac": 40, "burst_max": 20_000, "each_burst": 32, "other_programs": 0 });
    assert_eq!(shown["settings"], set);
    let lane = &shown["lanes"][0];
    let shares = ["network_percent", "others_percent", "asleep_percent"].map(|share| lane[share].as_f64().unwrap());
    assert!(shares.iter().all(|share| (0.0..=100.0).contains(share)) && shares[2] > 50.0, "{shown}");
    assert!(lane["burst"].as_u64().unwrap() > 0, "{shown}");
    // One after the other, in the order in which they were asked for.
    let shown = polling(&server, &["--set", "user_frac=90", "--set", "burst_max=20", "--set", "each_burst=20"]).unwrap();
    let set = json!({ "controller": "timed", "user_frac": 90, "burst_max": 20, "each_burst": 20, "other_programs": 0 });
    assert_eq!(shown["settings"], set);
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    for (arguments, words) in [
        (["--set", "user_frac=100"], "--set user_frac=100: user_frac is 0 to 99, not 100"),
        (["--set", "each_burst=21"], "each_burst is 1 to 20, not 21"),
        (["--set", "burst_max=9"], "burst_max is 10 to 20000, not 9"),
        (["--set", "reg_frac=5"], "reg_frac is of controller=original: choose that first"),
        (["--set", "burst=5"], "there is no such knob: name one of controller"),
        (["--set", "other_programs=1"], "other_programs is set at the start alone"),
        (["--set", "user_frac"], "write a knob and its value, as in user_frac=30"),
    ] {
        let said = polling(&server, &arguments).unwrap_err();
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(polling(&server, &[]).unwrap()["settings"], set, "what is refused changes nothing");
    // Text for people.
    let mut command = Command::new(PROGRAM);
    let text = output(command.arg("polling").env("CORELANE_RUN_DIR", server.run.path()));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("user_frac") && text.contains("per cent of the time") && text.contains("\nlane network% others%"),
        "{text}"
    );
    ends(server);
    let Some(plain) = driver.start(test, &["--lanes", "1", "echo=udp://127.0.0.1:0"]) else { return };
    let said = polling(&plain, &["--set", "user_frac=30"]).unwrap_err();
    assert!(said.contains("nothing polls here: start it with"), "{said}");
    let said = polling(&plain, &[]).unwrap_err();
    assert!(said.contains("nothing polls in process"), "{said}");
    ends(plain);
}

fn d_03_the_originals_controller_ticks_on_lanes(driver: Driver) {
    let test = "polling::d_03_the_originals_controller_ticks_on_lanes";
    let Some(server) = echoes(driver, test, "", &format!("{PORT},controller=original,hz=200")) else { return };
    let of = |shown: &Value, name: &str| shown["lanes"][0][name].as_u64().unwrap();
    let shown = polling(&server, &[]).unwrap();
    let set = json!({
        "controller": "original", "hz": 200, "user_frac": 50, "burst_max": 150, "each_burst": 5, "reg_frac": 20, "idle_poll": 0
    });
    assert_eq!((&shown["settings"], of(&shown, "handlers")), (&set, 1));
    // A tick that finds little lets the burst grow, up to its bound.
    until("the burst has grown", || {
        assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
        of(&polling(&server, &[]).unwrap(), "burst") > 20
    });
    // What the controller has found stays, as far as it is within what is set.
    let shown = polling(&server, &["--set", "burst_max=15", "--set", "idle_poll=1"]).unwrap();
    assert!((1..=15).contains(&of(&shown, "burst")) && of(&shown, "stalled") == 0, "{shown}");
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    let shown = polling(&server, &["--set", "hz=1000", "--set", "idle_poll=0"]).unwrap();
    assert_eq!((&shown["settings"]["each_burst"], &shown["settings"]["hz"]), (&5.into(), &1000.into()));
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    // Back to the clock, and its own knobs.
    let shown = polling(&server, &["--set", "controller=timed"]).unwrap();
    assert_eq!((&shown["settings"]["each_burst"], &shown["settings"]["user_frac"]), (&64.into(), &50.into()));
    assert!(comes_back(server.pid(), "10.9.0.1:0", PATIENCE));
    ends(server);
}

fn what_polling_is_set_to_at_the_start_is_checked(driver: Driver) {
    let test = "polling::what_polling_is_set_to_at_the_start_is_checked";
    if !can_run(&driver.case(test)) {
        return;
    }
    for (more, words) in [
        (",poll,user_frac=100", "user_frac is 0 to 99, not 100"),
        (",poll,each_burst=20001", "each_burst is 1 to 20000, not 20001"),
        (",poll,controller=best", "controller is timed or original"),
        (",user_frac=30", "neither ip= nor vlan="),
    ] {
        let mut command = Command::new(PROGRAM);
        let refused = output(command.args(["serve", "--check", "--packet", &format!("va,ip=10.9.0.2/24{more}")]));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(words), "{more}: {said}");
    }
}
