//! One file per verb of the command line.

pub(crate) mod acp;
pub(crate) mod demo_agent;
pub(crate) mod serve;
pub(crate) mod token;
