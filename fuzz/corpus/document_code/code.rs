//! Module.
use std::fmt;

/// Doc
pub fn main() -> u32 {
    let s = "brace } in string";
    match s.len() { 0 => 1, _ => { 2 } }
}

impl fmt::Display for X {
    fn fmt(&self) {}
}
