//! See `wharf_host::fuzz::readers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wharf_host::fuzz::readers(data));
