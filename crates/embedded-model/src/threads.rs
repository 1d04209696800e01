//! How many cores to think on.

/// All physical cores, or one fewer when the machine has had as much to do as it has cores for a minute, and still has. To be
/// asked before the process has threads, and given to the kernels as `CANDLE_NUM_THREADS`, which they read once.
///
/// After each of the hundreds of products that make a token, candle's threads wait for each other without giving up their
/// core. Where the other thread is not running, each such wait lasts until the scheduler comes round: on two cores with eight
/// jobs, two threads were measured to be four times slower than one.
pub fn wanted() -> usize {
    let cores = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|cpuinfo| physical(&cpuinfo));
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let loadavg = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    choose(cores.unwrap_or(logical).min(logical), &loadavg)
}

/// The average of a minute alone would still call a machine busy whose build has just ended.
fn choose(cores: usize, loadavg: &str) -> usize {
    let mut fields = loadavg.split(' ');
    let average: f32 = fields.next().and_then(|average| average.parse().ok()).unwrap_or(0.0);
    // "running/all"; one that runs is this one, which reads it.
    let running: usize = fields.nth(2).and_then(|tasks| tasks.split('/').next()?.parse().ok()).unwrap_or(0);
    let is_busy = average >= cores as f32 && running > cores;
    if is_busy { cores.saturating_sub(1).max(1) } else { cores.max(1) }
}

/// Distinct pairs of socket and core.
fn physical(cpuinfo: &str) -> Option<usize> {
    let mut socket = "";
    let mut cores = std::collections::BTreeSet::new();
    for line in cpuinfo.lines() {
        match line.split_once(':').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("physical id", id)) => socket = id,
            Some(("core id", id)) => {
                cores.insert((socket, id));
            }
            _ => {}
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_keeps_a_core() {
        let cases = [
            (1, "0.00 0.00 0.00 1/90 5", 1),
            (1, "9.00 9.00 9.00 9/90 5", 1),
            (2, "0.50 0.00 0.00 1/90 5", 2),
            (2, "2.00 0.00 0.00 3/90 5", 1),
            (2, "9.00 9.00 9.00 1/90 5", 2),
            (2, "0.30 9.00 9.00 9/90 5", 2),
            (8, "7.90 8.00 8.00 9/90 5", 8),
            (8, "8.00 8.00 8.00 9/90 5", 7),
            (8, "", 8),
            (0, "0.00 0.00 0.00 1/90 5", 1),
        ];
        for (cores, loadavg, expected) in cases {
            assert_eq!(choose(cores, loadavg), expected, "{cores} cores at {loadavg}");
        }
    }

    #[test]
    fn siblings_are_one_core() {
        let cpu = |socket, core| format!("processor\t: 0\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n");
        assert_eq!(physical(&[cpu(0, 0), cpu(0, 1), cpu(0, 0), cpu(1, 0)].concat()), Some(3));
        assert_eq!(physical("model name: something\n"), None);
    }
}
