//! One rule for whether settings are right: a start, a take-over, `--check`, `--plan`, `doctor` and SIGHUP all ask here.
//!
//! ```text
//! command line, environment, file --settings::complete--> arguments --lanes::of--> Lanes --Lanes::check--> right, or which setting is not, and where
//! ```
//!
//! Whether a port is free is no question of settings: a program that serves has its own.

use super::arguments::Arguments;
use super::lanes;
use super::settings::{self, Setting};
use anyhow::{Result, anyhow};
use corelane::Lanes;
use corelane::admin::messages::Degraded;
use corelane::admin::user::User;

/// The lanes that these arguments ask for, if all that they say is right. The settings among them are blamed for what is not.
///
/// # Errors
/// What is wrong, and where it stands.
pub fn lanes(arguments: Arguments, settings: &[Setting]) -> Result<Lanes> {
    right(arguments).map_err(|error| settings::blame(settings, error, right))
}

/// The same without blame.
pub fn right(arguments: Arguments) -> Result<Lanes> {
    user(&arguments)?;
    let lanes = lanes::of(arguments)?;
    lanes.check()?;
    Ok(lanes)
}

/// The same as the user who is to serve would find it, for those who start nothing. Who is not root finds what may be found without.
///
/// # Errors
/// As of [`lanes`]; there is no such user.
pub fn lanes_as_user(arguments: Arguments, settings: &[Setting]) -> Result<Lanes> {
    match user(&arguments)? {
        Some(user) => user.acting(|| lanes(arguments, settings)).map_err(|why| anyhow!("--user: {why}"))?,
        None => lanes(arguments, settings),
    }
}

/// Who is to serve, if that is somebody else.
///
/// # Errors
/// There is no such user.
pub fn user(arguments: &Arguments) -> Result<Option<User>> {
    arguments.user.as_deref().map(User::find).transpose().map_err(|why| anyhow!("--user: {why}"))
}

/// The lanes, with a note of variables that look like settings and are none.
pub fn noting_variables(lanes: Lanes) -> Lanes {
    let names = settings::unknown_variables(std::env::vars_os().map(|(name, _)| name));
    if names.is_empty() {
        return lanes;
    }
    let words =
        format!("the environment has {}, which set nothing: see `corelane serve --help` for those that do", names.join(", "));
    lanes.note(Degraded::UnknownVariable.note(words))
}
