//! A key that a program prints, such as `secret-tool lookup …` or `pass show …`.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Secret;

const TIME_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// Its output is never part of an error, because it may be the key. Its stderr is inherited.
pub(crate) fn run(words: &[String]) -> Result<Secret, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("no key: `command` is a list, a program and its arguments".to_owned());
    };
    let started = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("no key: {program} cannot be started ({error})"))?;
    let Some(stdout) = child.stdout.take() else { return Err(format!("no key: {program} has no output")) };
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes);
        // The receiver is gone after the timeout.
        let _ = send.send(read);
    });
    let until = Instant::now() + TIME_MAX;
    let output = receive.recv_timeout(TIME_MAX);
    let ended = loop {
        match child.try_wait().map_err(|error| format!("no key: {program}: {error}"))? {
            Some(status) => break Some(status),
            None if matches!(&output, Ok(Ok(bytes)) if bytes.len() as u64 <= OUTPUT_BYTES_MAX) && Instant::now() < until => std::thread::sleep(POLL),
            None => break None,
        }
    };
    if ended.is_none() {
        // It may have exited already; waiting leaves no zombie in either case.
        let _ = child.kill();
        let _ = child.wait();
    }
    let bytes = match output {
        Ok(Ok(bytes)) if bytes.len() as u64 > OUTPUT_BYTES_MAX => {
            return Err(format!("no key: {program} printed more than {OUTPUT_BYTES_MAX} bytes"));
        }
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(format!("no key: the output of {program} cannot be read ({error})")),
        Err(_) => return Err(too_slow(program)),
    };
    match ended {
        Some(status) if status.success() => {}
        Some(status) => return Err(format!("no key: {program} ended with {status}")),
        None => return Err(too_slow(program)),
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("no key: {program} printed something that is not text"))?;
    text.lines().next().and_then(Secret::new).ok_or_else(|| format!("no key: {program} printed nothing"))
}

fn too_slow(program: &str) -> String {
    format!("no key: {program} did not end within {} s", TIME_MAX.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Result<Secret, String> {
        run(&["sh".to_owned(), "-c".to_owned(), script.to_owned()])
    }

    #[test]
    fn the_first_line_that_a_program_prints_is_the_key() {
        assert_eq!(sh("echo '  from the keyring '; echo more").unwrap().reveal(), "from the keyring");
    }

    #[test]
    fn errors_do_not_contain_output() {
        for (script, words) in
            [("exit 3", "exit status: 3"), ("echo hidden-key; exit 1", "exit status: 1"), (":", "printed nothing"), ("printf '\\377'", "not text")]
        {
            let why = sh(script).unwrap_err();
            assert!(why.contains(words) && !why.contains("hidden-key"), "{script}: {why}");
        }
        assert!(sh("head -c 100000 /dev/zero").unwrap_err().contains("more than"));
        assert!(run(&["/no/such/program".to_owned()]).unwrap_err().contains("cannot be started"));
        assert!(run(&[]).unwrap_err().contains("a list"));
    }
}
