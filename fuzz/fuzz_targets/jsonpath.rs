#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz_targets::jsonpath::run(data));
