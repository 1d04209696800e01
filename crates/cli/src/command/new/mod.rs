//! `baton new flow NAME`: creates a crate with a flow. Its content is the example `crates/baton/examples/new_flow`, which is built and run
//! with the other examples.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Result, ServiceError};

/// Create something new: a crate with a flow
#[derive(clap::Subcommand)]
pub(crate) enum New {
    Flow(NewFlow),
}

/// Create a crate with a flow of your own: one node, a prompt file, a setting, a program and tests
#[derive(clap::Args)]
#[command(
    after_help = "The package `baton` is not on crates.io: the new crate uses the sources named with --baton, which are looked for above the working folder \
                        and above this program.\n\n\
                        Examples:\n  baton new flow weather\n  baton new flow weather --path ~/src/weather --baton ~/src/baton"
)]
pub(crate) struct NewFlow {
    /// The crate's name: letters, digits, `-` and `_`, beginning with a letter
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder to create [default: NAME in the working folder]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The folder with Baton's sources
    #[arg(long, value_name = "DIR", conflicts_with = "baton_version")]
    baton: Option<PathBuf>,
    /// A version of the package `baton` in your registry, instead of a folder
    #[arg(long, value_name = "VERSION")]
    baton_version: Option<String>,
}

const NAME_CHARS_MAX: usize = 64;
/// The name in the example that becomes the crate's.
const PLACEHOLDER: &str = "new_flow";
/// Names that Cargo or the compiler reject, or that would shadow a dependency.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "baton",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde_json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

impl New {
    pub(crate) fn run(self) -> Result<Exit> {
        match self {
            New::Flow(flow) => flow.run(),
        }
    }
}

impl NewFlow {
    fn run(self) -> Result<Exit> {
        check_name(&self.name)?;
        let folder = self.path.unwrap_or_else(|| PathBuf::from(&self.name));
        if folder.symlink_metadata().is_ok() {
            return Err(ServiceError::Usage(format!("{} exists already; name another folder with --path", folder.display())));
        }
        let dependency = match (self.baton, self.baton_version) {
            (_, Some(version)) => Dependency::Version(check_version(version)?),
            (Some(sources), None) => Dependency::Folder(sources_in(&sources)?),
            (None, None) => Dependency::Folder(find_sources()?),
        };
        let failed = |error: std::io::Error| ServiceError::Failed(format!("{} cannot be created: {error}", folder.display()));
        // Created in a temporary folder and renamed, so that an error leaves no incomplete crate.
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(failed)?;
        let beside = tempfile::Builder::new().prefix(".baton-new-").tempdir_in(parent).map_err(failed)?;
        let new = beside.path().join("crate");
        write_crate(&new, &self.name, &dependency).map_err(failed)?;
        fs::rename(&new, &folder).map_err(failed)?;
        println!("created {} with {}", folder.display(), dependency.describe());
        println!("next: cd {} && cargo test && cargo run -- \"What is this?\" README.md", folder.display());
        Ok(Exit::Well)
    }
}

enum Dependency {
    /// The folder of the package `baton`, and the lock file of its workspace.
    Folder(PathBuf),
    Version(String),
}

impl Dependency {
    fn toml(&self) -> String {
        match self {
            Dependency::Folder(folder) => format!("{{ path = {} }}", quoted(&folder.display().to_string())),
            Dependency::Version(version) => format!("{{ version = {} }}", quoted(version)),
        }
    }

    fn describe(&self) -> String {
        match self {
            Dependency::Folder(folder) => format!("baton from {}", folder.display()),
            Dependency::Version(version) => format!("baton {version}"),
        }
    }

    fn readme(&self) -> String {
        match self {
            Dependency::Folder(folder) => format!(
                "`baton` is not on crates.io, so `Cargo.toml` names the folder of its sources (`{}`); change the path if they move. `Cargo.lock` has the versions \
                 Baton itself is tested with.",
                folder.display()
            ),
            Dependency::Version(version) => {
                format!("`Cargo.toml` names version {version} of `baton`, which your registry must have: it is not on crates.io.")
            }
        }
    }
}

/// A JSON string is also a valid TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write_crate(folder: &Path, name: &str, dependency: &Dependency) -> std::io::Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    let fill =
        |template: &str| template.replace("{package}", name).replace("{baton}", &dependency.toml()).replace("{dependency}", &dependency.readme());
    // A flow's name is an identifier, as for all built-in flows.
    let rename = |source: &str| source.replace(PLACEHOLDER, &name.replace('-', "_"));
    fs::write(folder.join("Cargo.toml"), fill(include_str!("Cargo.toml.txt")))?;
    fs::write(folder.join("README.md"), fill(include_str!("README.md.txt")))?;
    fs::write(folder.join(".gitignore"), "/target\n/runs.db*\n")?;
    fs::write(folder.join("src/main.rs"), rename(include_str!("../../../../baton/examples/new_flow/main.rs")))?;
    fs::write(folder.join("src/flow.rs"), rename(include_str!("../../../../baton/examples/new_flow/flow.rs")))?;
    fs::write(folder.join("src/answer.md"), include_str!("../../../../baton/examples/new_flow/answer.md"))?;
    if let Dependency::Folder(package) = dependency {
        let lock = package.join("../../Cargo.lock");
        if lock.is_file() {
            fs::copy(lock, folder.join("Cargo.lock"))?;
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    let is_well_formed = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if !is_well_formed || name.len() > NAME_CHARS_MAX {
        return Err(ServiceError::Usage(format!(
            "{name:?} cannot be the name of a crate: use ASCII letters, digits, `-` and `_`, beginning with a letter, {NAME_CHARS_MAX} at most"
        )));
    }
    if RESERVED.contains(&name.replace('-', "_").to_ascii_lowercase().as_str()) {
        return Err(ServiceError::Usage(format!("{name:?} is a reserved word or the name of a dependency; choose another name")));
    }
    Ok(())
}

fn check_version(version: String) -> Result<String> {
    let is_version = version.starts_with(|c: char| c.is_ascii_digit() || "=^~".contains(c))
        && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-+=^~".contains(c));
    if is_version { Ok(version) } else { Err(ServiceError::Usage(format!("{version:?} is not a version; write for instance 0.1"))) }
}

/// The folder of the package `baton`: the given one, or a checkout that contains it.
fn sources_in(folder: &Path) -> Result<PathBuf> {
    let found = package_in(folder).ok_or_else(|| {
        ServiceError::Usage(format!("there is no package `baton` in {}; name the folder that holds crates/baton", folder.display()))
    })?;
    found.canonicalize().map_err(|error| ServiceError::Failed(format!("{}: {error}", found.display())))
}

fn find_sources() -> Result<PathBuf> {
    let near = [std::env::current_dir(), std::env::current_exe().and_then(fs::canonicalize)];
    let found = near.iter().flatten().flat_map(|path| path.ancestors()).find_map(package_in);
    found.ok_or_else(|| {
        ServiceError::Usage(
            "Baton's sources are not above this folder or this program; name them with --baton DIR, or a version with --baton-version".into(),
        )
    })
}

fn package_in(folder: &Path) -> Option<PathBuf> {
    let is_package = |folder: &Path| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok();
        manifest.is_some_and(|text| text.lines().any(|line| line.trim() == r#"name = "baton""#))
    };
    [folder.join("crates/baton"), folder.to_owned()].into_iter().find(|folder| is_package(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        for good in ["weather", "my-flow", "a1_b", "Tides"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(NAME_CHARS_MAX + 1);
        for bad in ["", "1st", "-x", "_x", "a b", "a/b", "../x", "naïve", "a.b", "fn", "Self", "test", "baton", "serde-json", "a\nb", long.as_str()]
        {
            assert!(matches!(check_name(bad), Err(ServiceError::Usage(_))), "{bad:?}");
        }
        for (version, is_good) in [("0.1", true), ("=0.1.0-rc.1", true), ("", false), ("latest", false), ("1\"", false)] {
            assert_eq!(check_version(version.into()).is_ok(), is_good, "{version:?}");
        }
    }

    #[test]
    fn nothing_of_the_example_is_left_and_paths_are_quoted() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("new");
        write_crate(&folder, "my-tides", &Dependency::Folder("/a \"b\"/crates/baton".into())).unwrap();
        for file in ["Cargo.toml", "README.md", "src/main.rs", "src/flow.rs", "src/answer.md", ".gitignore"] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            assert!(!text.contains(PLACEHOLDER) && !text.contains("{package}") && !text.contains("{dependency}"), "{file}: {text}");
        }
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("my-tides"));
        assert_eq!(manifest["dependencies"]["baton"]["path"].as_str(), Some("/a \"b\"/crates/baton"));
        assert!(fs::read_to_string(folder.join("src/flow.rs")).unwrap().contains("NAME: &str = \"my_tides\""));
    }
}
