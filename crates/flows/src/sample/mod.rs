//! Two sample flows for tests and demonstrations.

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
