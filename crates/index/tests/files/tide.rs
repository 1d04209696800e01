//! Computes when the water is high.

/// A port with its own delay against the tables.
pub struct Port {
    delay_minutes: i32,
}

impl Port {
    /// When the next high water comes.
    pub fn nextHighWater(&self, table: &[i32]) -> Option<i32> {
        table.first().map(|minute| minute + self.delay_minutes)
    }
}

fn spring_tide_offset(moon_age: u8) -> i32 {
    i32::from(moon_age) % 15
}
