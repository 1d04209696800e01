//! How many cores to think on.

/// All physical cores, or one fewer when the machine already has as much to do as it has cores. To be asked before the process
/// has threads, and given to the kernels as `CANDLE_NUM_THREADS`, which they read once.
///
/// After each of the hundreds of products that make a token, candle's threads wait for each other without giving up their
/// core. Where the other thread is not running, each such wait lasts until the scheduler comes round: on two cores with eight
/// jobs, two threads were measured to be four times slower than one.
pub fn wanted() -> usize {
    let cores = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|cpuinfo| physical(&cpuinfo));
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").ok().and_then(|loadavg| loadavg.split(' ').next()?.parse().ok());
    choose(cores.unwrap_or(logical).min(logical), load.unwrap_or(0.0))
}

fn choose(cores: usize, load: f32) -> usize {
    let is_busy = load >= cores as f32;
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
        let cases = [(1, 0.0, 1), (1, 9.0, 1), (2, 0.5, 2), (2, 2.0, 1), (8, 7.9, 8), (8, 8.0, 7), (0, 0.0, 1)];
        for (cores, load, expected) in cases {
            assert_eq!(choose(cores, load), expected, "{cores} cores at {load}");
        }
    }

    #[test]
    fn siblings_are_one_core() {
        let cpu = |socket, core| format!("processor\t: 0\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n");
        assert_eq!(physical(&[cpu(0, 0), cpu(0, 1), cpu(0, 0), cpu(1, 0)].concat()), Some(3));
        assert_eq!(physical("model name: something\n"), None);
    }
}
