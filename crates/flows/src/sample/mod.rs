//! Two flows to try the machine with, until the true ones land.

pub mod research;
pub mod team;

#[cfg(test)]
mod drive;
#[cfg(test)]
mod research_tests;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod team_tests;
