//! See `wharf_acp::fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wharf_acp::fuzz::envelope(data));
