//! See `wharf_config::fuzz::workspaces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wharf_config::fuzz::workspaces(data));
