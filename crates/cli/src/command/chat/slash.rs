//! Commands of a session.

/// A command with its argument, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlashCommand<'a> {
    Flow(Option<&'a str>),
    Model(Option<&'a str>),
    Docs(Option<&'a str>),
    Sources,
    Thread(Option<&'a str>),
    New,
    Strict,
    Set(Option<&'a str>),
    Help,
    Quit,
}

/// Name, argument and description, in the order of the help.
pub(super) const ALL: [(&str, &str, &str); 10] = [
    ("/flow", "[NAME]", "which flow answers from now on; alone, shows them"),
    ("/model", "[NAME]", "the model to use from now on; without a name, shows the current one"),
    ("/docs", "[DIR]", "the folder of documents to answer from; - for none; alone, prints it"),
    ("/sources", "", "the sources of the last answer, and how well each sentence is supported"),
    ("/thread", "[NAME]", "go on in another thread; alone, prints the current one"),
    ("/new", "", "begin a new thread"),
    ("/strict", "", "remove sentences that nothing supports, or only mark them again"),
    ("/set", "[KEY=VALUE]", "a setting of the flow; KEY alone takes it back; alone, lists them"),
    ("/help", "", "this list"),
    ("/quit", "", "end the session, as Ctrl-D does"),
];

/// `None` for a message. An unknown command is an error that names the most similar one.
pub(super) fn parse(line: &str) -> Option<Result<SlashCommand<'_>, String>> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // Paths and multi-line texts are not commands.
    if !name.starts_with('/') || name[1..].contains('/') || line.contains('\n') {
        return None;
    }
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
    let slash = match name {
        "/flow" => SlashCommand::Flow(rest),
        "/model" => SlashCommand::Model(rest),
        "/docs" => SlashCommand::Docs(rest),
        "/sources" => SlashCommand::Sources,
        "/thread" => SlashCommand::Thread(rest),
        "/new" => SlashCommand::New,
        "/strict" => SlashCommand::Strict,
        "/set" => SlashCommand::Set(rest),
        "/help" | "/?" => SlashCommand::Help,
        "/quit" | "/exit" | "/q" => SlashCommand::Quit,
        unknown => {
            let known = ALL.iter().map(|(name, _, _)| *name);
            return Some(Err(format!("there is no {unknown}; the nearest is {}, and /help lists them all", nearest(unknown, known))));
        }
    };
    Some(Ok(slash))
}

/// The known word most similar to the typed one.
pub(super) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    let likeness = |word: &str| strsim::jaro_winkler(typed, word);
    known.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap_or_default()
}

pub(super) fn help() -> String {
    let line = |(name, rest, about): &(&str, &str, &str)| format!("  {:<16} {about}", format!("{name} {rest}"));
    format!("In a session:\n{}", ALL.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_messages() {
        assert_eq!(parse("/flow  panel "), Some(Ok(SlashCommand::Flow(Some("panel")))));
        assert_eq!(parse("/new"), Some(Ok(SlashCommand::New)));
        for message in ["What is /etc?", "/etc/passwd, what is it?", "/flow\nis a command?", "flow"] {
            assert_eq!(parse(message), None, "{message}");
        }
        for (name, _, _) in ALL {
            assert!(matches!(parse(name), Some(Ok(_))), "{name}");
        }
        for (typed, meant) in [("/flwo", "/flow"), ("/source", "/sources"), ("/modle x", "/model"), ("/exi", "/"), ("/", "/")] {
            let why = parse(typed).unwrap().unwrap_err();
            assert!(why.contains(&format!("the nearest is {meant}")), "{why}");
        }
    }
}
