//! What is in `web/`, in the binary. The test `the_list_of_files_is_the_folder` writes this list anew when it is stale.

#[allow(unused_macros, reason = "the room may be empty")]
macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../../web/", $name)))
    };
}

pub(super) const FILES: &[(&str, &[u8])] = &[];
