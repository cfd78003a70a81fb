//! Real files and real processes. Terminals need the built `wharf`, which holds the keeper.

mod files;
mod outside;
// They tell their life by a named pipe, which is made here by a call that other systems lack.
#[cfg(target_os = "linux")]
mod terminals;
