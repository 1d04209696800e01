//! How many threads the embedded model computes on.

/// The environment variable that overrides [`wanted`]. candle reads it too, for the weights that its kernels compute.
pub const VARIABLE: &str = "CANDLE_NUM_THREADS";

/// The physical cores, as far as the affinity of the process and the quota of its cgroup allow.
///
/// The load of the machine does not count: it changes within seconds, and the number is read once per process. On a busy machine
/// the threads of our own kernels yield (see `kernel::pool`).
pub fn wanted() -> usize {
    let cores = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|cpuinfo| physical(&cpuinfo));
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    cores.unwrap_or(allowed).clamp(1, allowed.max(1))
}

/// The value of [`VARIABLE`], or [`wanted`].
pub(super) fn count() -> usize {
    let set = std::env::var(VARIABLE).ok().and_then(|value| value.parse::<usize>().ok()).filter(|&count| count > 0);
    set.map_or_else(wanted, |count| count.min(THREADS_MAX))
}

const THREADS_MAX: usize = 1024;

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
    fn no_more_threads_than_the_process_may_use() {
        let allowed = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((1..=allowed).contains(&wanted()));
    }

    #[test]
    fn siblings_are_one_core() {
        let cpu = |socket, core| format!("processor\t: 0\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n");
        assert_eq!(physical(&[cpu(0, 0), cpu(0, 1), cpu(0, 0), cpu(1, 0)].concat()), Some(3));
        assert_eq!(physical("model name: something\n"), None);
    }
}
