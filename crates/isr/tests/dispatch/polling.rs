//! Device polling: the original's controller beside a model of its own, the card of the published runs, and the tuner.

mod card;
mod controller;
mod knobs;
mod model;
mod timed;
mod tune;
