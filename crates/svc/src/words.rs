//! The words that all of the layer uses: names and endings, why a connection stays on its lane, flows, errors, what services say to each other, and the classes of handles.

pub(crate) mod class;
pub(crate) mod error;
pub(crate) mod flows;
pub(crate) mod names;
pub(crate) mod stays;
pub(crate) mod talk;
pub(crate) mod ticket;
pub(crate) mod transform;
pub(crate) mod writer;
