//! The sandbox of the server `code`: on Linux, that nothing escapes; elsewhere, that no program runs without one.

#![allow(clippy::unwrap_used)]

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod contained;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod probe;
#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
mod refused;

fn main() {
    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    contained::run();
    #[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
    refused::run();
}
