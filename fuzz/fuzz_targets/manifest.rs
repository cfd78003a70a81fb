//! See `wharf_config::fuzz::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wharf_config::fuzz::manifest(data));
