//! What earlier calls left in the network's memory, so that a prompt is read only from where it differs.
//!
//! Flows begin their prompts alike (the same instructions, the same tools), and a conversation begins with itself. The store
//! keeps the memories of the last few calls within a number of entries and of tokens; the least recently used go first.

/// `K` is a memory of tokens: [`super::net::Kv`], or in tests nothing at all.
pub(super) struct Prefixes<K> {
    entries: Vec<Entry<K>>,
    limits: Limits,
    clock: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) entries_max: usize,
    /// Tokens of all entries together.
    pub(super) tokens_max: usize,
}

struct Entry<K> {
    tokens: Vec<u32>,
    memory: K,
    used: u64,
}

/// Where a prompt may start.
pub(super) enum Start<'a, K> {
    Fresh,
    /// The prompt goes on where this memory ends. It has left the store.
    Extend(K),
    /// The first `len` tokens of this memory are the prompt's. It stays for prompts that share more.
    Fork {
        memory: &'a K,
        len: usize,
    },
}

impl<K> Prefixes<K> {
    pub(super) fn new(limits: Limits) -> Self {
        Prefixes { entries: Vec::new(), limits, clock: 0 }
    }

    /// How many tokens of the prompt are known.
    pub(super) fn known(&self, prompt: &[u32]) -> usize {
        self.entries.iter().map(|entry| common(&entry.tokens, prompt)).max().unwrap_or(0)
    }

    /// At least the last token of the prompt is always left to read: what follows it is the point.
    pub(super) fn find(&mut self, prompt: &[u32]) -> Start<'_, K> {
        self.clock += 1;
        let readable = &prompt[..prompt.len().saturating_sub(1)];
        let best = self.entries.iter().enumerate().map(|(at, entry)| (common(&entry.tokens, readable), at)).max();
        match best {
            None | Some((0, _)) => Start::Fresh,
            Some((len, at)) if len == self.entries[at].tokens.len() => Start::Extend(self.entries.swap_remove(at).memory),
            Some((len, at)) => {
                let entry = &mut self.entries[at];
                entry.used = self.clock;
                Start::Fork { memory: &entry.memory, len }
            }
        }
    }

    /// Keeps a memory of exactly these tokens; `shorten` makes a smaller one if it alone is over the limit.
    pub(super) fn keep<E>(&mut self, mut tokens: Vec<u32>, memory: K, shorten: impl FnOnce(&K, usize) -> Result<K, E>) -> Result<(), E> {
        let memory = if tokens.len() > self.limits.tokens_max {
            tokens.truncate(self.limits.tokens_max);
            shorten(&memory, self.limits.tokens_max)?
        } else {
            memory
        };
        if tokens.is_empty() || self.limits.entries_max == 0 {
            return Ok(());
        }
        self.clock += 1;
        self.entries.retain(|entry| !tokens.starts_with(&entry.tokens));
        self.entries.push(Entry { tokens, memory, used: self.clock });
        while self.entries.len() > self.limits.entries_max || self.tokens() > self.limits.tokens_max {
            let Some((oldest, _)) = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used) else { break };
            self.entries.swap_remove(oldest);
        }
        Ok(())
    }

    fn tokens(&self) -> usize {
        self.entries.iter().map(|entry| entry.tokens.len()).sum()
    }
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(kept: &[&[u32]]) -> Prefixes<usize> {
        let mut prefixes = Prefixes::new(Limits { entries_max: 3, tokens_max: 20 });
        for (at, tokens) in kept.iter().enumerate() {
            prefixes.keep(tokens.to_vec(), at, |_, _| Ok::<_, ()>(100 + at)).unwrap();
        }
        prefixes
    }

    fn check(kept: &[&[u32]], prompt: &[u32], expected: &str) {
        let mut prefixes = prefixes(kept);
        let found = match prefixes.find(prompt) {
            Start::Fresh => "fresh".to_owned(),
            Start::Extend(memory) => format!("extend {memory}"),
            Start::Fork { memory, len } => format!("fork {memory} at {len}"),
        };
        assert_eq!(found, expected, "{kept:?} {prompt:?}");
    }

    #[test]
    fn the_longest_common_prefix_is_found() {
        check(&[], &[1, 2], "fresh");
        check(&[&[7, 8]], &[1, 2], "fresh");
        check(&[&[1, 2], &[1, 3]], &[1, 3, 4], "extend 1");
        check(&[&[1, 2, 9, 9], &[1, 2, 3, 9]], &[1, 2, 3, 4], "fork 1 at 3");
        check(&[&[1, 2, 3]], &[], "fresh");
    }

    #[test]
    fn the_last_token_is_read_again() {
        check(&[&[1, 2, 3]], &[1, 2, 3], "fork 0 at 2");
        check(&[&[1, 2]], &[1, 2, 3], "extend 0");
        check(&[&[1]], &[1], "fresh");
    }

    #[test]
    fn an_entry_that_was_gone_on_from_is_replaced() {
        assert_eq!(prefixes(&[&[1, 2], &[1, 2, 3]]).entries.len(), 1);
        assert_eq!(prefixes(&[&[1, 2], &[1, 3]]).entries.len(), 2);
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let mut kept = prefixes(&[&[1, 1], &[2, 2], &[3, 3]]);
        assert!(matches!(kept.find(&[1, 1, 0]), Start::Extend(0)));
        kept.keep(vec![1, 1, 0], 9, |_, _| Ok::<_, ()>(0)).unwrap();
        kept.keep(vec![4, 4], 4, |_, _| Ok::<_, ()>(0)).unwrap();
        assert!(matches!(kept.find(&[2, 2, 0]), Start::Fresh));
        assert!(matches!(kept.find(&[1, 1, 5]), Start::Fork { memory: 9, len: 2 }));
    }

    #[test]
    fn tokens_are_bounded_too() {
        let long = [5; 30];
        let kept = prefixes(&[&[1; 12], &[2; 12], &long]);
        assert_eq!(kept.tokens(), 20);
        assert_eq!(kept.entries[0].memory, 102, "it was shortened");
    }
}
