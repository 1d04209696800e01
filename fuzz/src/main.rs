//! libFuzzer's entry. `BATON_FUZZ_TARGET` names the target, so that one build has all of them.
#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<targets::Target> = LazyLock::new(|| {
    let name = std::env::var("BATON_FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = targets::ALL.iter().map(|(name, _)| *name).collect();
    let found = targets::ALL.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("BATON_FUZZ_TARGET is one of: {}", names.join(", "))).1
});

fuzz_target!(|data: &[u8]| TARGET(data));
