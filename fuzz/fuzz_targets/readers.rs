//! See `wharf_acp::fuzz::readers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wharf_acp::fuzz::readers(data));
