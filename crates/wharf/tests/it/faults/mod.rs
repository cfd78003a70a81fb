//! The fault suite: failures are injected while work is under way, and all records are checked
//! afterwards. Every acknowledged record exists exactly once and no process is left.

mod agent_restarts;
mod agents;
mod clients;
mod control_client;
mod kill_clients;
mod kills;
mod record_check;
