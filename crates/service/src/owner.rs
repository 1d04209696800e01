//! The name of this process in leases, and whether another process has certainly exited.
//!
//! An owner is `host/boot-namespace/pid/started`: a process id alone is reused, and is meaningless in another container or after a reboot.
//! Only a process in the same PID namespace and boot is reported as gone; all other leases expire.

use std::fs;

/// The name of this process.
pub(crate) fn this() -> String {
    let pid = std::process::id();
    // Without /proc no process is visible, so `is_gone` always returns `false`; the time keeps the name unique.
    let started = started(pid).unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64));
    format!("{}/{pid}/{started}", view())
}

/// Whether the process of that name has certainly exited.
pub(crate) fn is_gone(owner: &str) -> bool {
    let mut parts = owner.rsplitn(3, '/');
    let (Some(began), Some(pid), Some(seen_from)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let (Ok(began), Ok(pid)) = (began.parse::<u64>(), pid.parse::<u32>()) else { return false };
    // If not even this process is visible, a missing one proves nothing.
    if seen_from != view() || started(std::process::id()).is_none() {
        return false;
    }
    started(pid) != Some(began)
}

/// Processes with the same view can see one another.
fn view() -> String {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let boot: String = read("/proc/sys/kernel/random/boot_id").chars().filter(char::is_ascii_hexdigit).take(12).collect();
    let namespace: String = fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    format!("{}/{boot}-{namespace}", read("/proc/sys/kernel/hostname").replace('/', "-"))
}

/// Start time of a process, in ticks since boot; `None` if it does not exist or is a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may contain anything, including brackets.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // The state was field 3 of proc(5); the start is field 22.
    fields.nth(18)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn renamed(change: impl Fn(&mut Vec<String>)) -> String {
        let mut parts: Vec<String> = this().split('/').map(str::to_owned).collect();
        change(&mut parts);
        parts.join("/")
    }

    #[test]
    fn the_living_are_not_gone() {
        assert!(!is_gone(&this()));
        assert_eq!(this(), this());
    }

    #[test]
    fn a_number_that_came_round_is_another_process() {
        assert!(is_gone(&renamed(|parts| parts[3] = "1".into())));
    }

    #[test]
    fn processes_that_cannot_be_seen_never_count_as_gone() {
        assert!(!is_gone(&renamed(|parts| parts[0].push('x'))), "another host");
        assert!(!is_gone(&renamed(|parts| parts[1].push('0'))), "another boot or container");
        for strange in ["", "/", "a/b/c", "0190c8f0a1b2", "host/boot/12/", "host/boot//7"] {
            assert!(!is_gone(strange), "{strange:?}");
        }
    }

    #[test]
    fn a_child_that_exited_counts_as_gone_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let began = started(child.id()).unwrap();
        let owner = renamed(|parts| (parts[2], parts[3]) = (child.id().to_string(), began.to_string()));
        assert!(!is_gone(&owner));
        child.kill().unwrap();
        // Not waited for yet: it exits shortly after the signal, and then is a zombie.
        let is_detected = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_gone(&owner)
        });
        assert!(is_detected);
        child.wait().unwrap();
        assert!(is_gone(&owner));
    }
}
