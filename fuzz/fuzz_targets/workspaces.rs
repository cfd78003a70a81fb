//! See `wharf_host::fuzz::workspaces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wharf_host::fuzz::workspaces(data));
