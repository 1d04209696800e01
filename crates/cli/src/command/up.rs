//! `baton up`: the team on one machine. Each part is a process of this program, all write to one log; a part that exits is restarted, and
//! all stop together.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use service::config::Config;
use service::global_args::GlobalArgs;
use service::hub::{self, REGISTRY_URL};
use service::model_options::ModelOptions;
use service::private;
use service::wiring;
use terminal::{BOLD, DIM, paint};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::exit::{Exit, Result, ServiceError};

/// Start the whole team on this machine: the agents, each a process, the tool registry, and the page
///
/// Ports are set in the configuration ([team]); everything listens on loopback. Ctrl-C stops all of it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  baton up
  baton up --model openai/gpt-4o-mini --docs ~/notes

Configuration:
  [team]
  me = \"Ann <ann@example.org>\"          whom \"mail it to me\" means
  agents = [\"researcher\", \"writer\"]     only these
  registry_port = 8021
  page_port = 8080
  [team.ports]
  researcher = 8001")]
pub(crate) struct Up {
    #[command(flatten)]
    model_options: ModelOptions,
}

/// One process of the team.
struct Part {
    name: String,
    port: u16,
    arguments: Vec<String>,
    /// The addresses of the agents, for the processes that call them.
    environment: Vec<(String, String)>,
}

const PAGE_PORT: u16 = 8080;
const PAUSE_MIN: Duration = Duration::from_millis(300);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Uptime after which the restart back-off is reset.
const LIFE_LONG: Duration = Duration::from_secs(60);
/// Time for the processes to stop.
const GRACE: Duration = Duration::from_secs(10);

impl Up {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        let config = Config::read(globals)?;
        let parts = self.parts(globals, &config)?;
        free(&parts)?;
        let log = Log::open(&hub::folder(globals)?)?;
        wiring::block_on_all_cores(supervise(parts, log))
    }

    /// What is started.
    fn parts(&self, globals: &GlobalArgs, config: &Config) -> Result<Vec<Part>> {
        let folder = hub::folder(globals)?.join("agents");
        private::make_folder(&folder).map_err(|error| ServiceError::Folder(format!("the folder {} cannot be made: {error}", folder.display())))?;
        let team = globals.flows.specialists();
        let names: Vec<&str> = team.iter().map(|one| one.flow).collect();
        let unknown = config.team.agents.iter().flatten().chain(config.team.ports.keys()).find(|name| globals.flows.specialist(name).is_none());
        if let Some(unknown) = unknown {
            return Err(ServiceError::Usage(format!("[team] names {unknown:?}, which is not an agent of the team; there are {}", names.join(", "))));
        }
        let mut parts: Vec<Part> = Vec::new();
        let registry = (REGISTRY_URL.to_owned(), format!("http://localhost:{}", config.team.registry_port()));
        for one in team.iter().filter(|one| config.team.has(one)) {
            let port = config.team.port(one);
            let mut arguments = words(&["agent", one.flow, "--port", &port.to_string(), "--json"]);
            arguments.extend(words(&["--db", &text(&folder.join(format!("{}.db", one.flow)))?]));
            arguments.extend(self.passed_on(globals)?);
            parts.push(Part { name: one.flow.to_owned(), port, arguments, environment: vec![registry.clone()] });
        }
        let port = config.team.registry_port();
        let mut arguments = words(&["registry", "--port", &port.to_string(), "--json", "--db", &text(&folder.join("registry.db"))?]);
        if let Some(path) = &globals.config {
            arguments.extend(words(&["--config", &text(path)?]));
        }
        let mut environment: Vec<(String, String)> =
            parts.iter().map(|part| (address_of(&part.name), format!("http://localhost:{}", part.port))).collect();
        environment.push(registry);
        let no_registry = vec![(REGISTRY_URL.to_owned(), String::new())];
        parts.push(Part { name: "registry".to_owned(), port, arguments, environment: no_registry });
        let port = config.team.page_port.unwrap_or(PAGE_PORT);
        let mut arguments = words(&["serve", "--port", &port.to_string(), "--json", "--db", &text(&globals.path()?)?]);
        arguments.extend(self.passed_on(globals)?);
        arguments.extend(globals.store_arguments());
        parts.push(Part { name: "page".to_owned(), port, arguments, environment });
        Ok(parts)
    }

    /// The options passed to every agent.
    fn passed_on(&self, globals: &GlobalArgs) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        if let Some(path) = &globals.config {
            arguments.extend(words(&["--config", &text(path)?]));
        }
        if let Some(model) = &self.model_options.model {
            arguments.extend(words(&["--model", model]));
        }
        if self.model_options.no_pull {
            arguments.push("--no-pull".to_owned());
        }
        for path in &self.model_options.servers.docs {
            arguments.extend(words(&["--docs", &text(path)?]));
        }
        Ok(arguments)
    }
}

/// The environment variable with an agent's address.
fn address_of(agent: &str) -> String {
    format!("{}_SERVICE_URL", agent.to_uppercase())
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| ServiceError::Usage(format!("the path {} is not UTF-8", path.display())))
}

/// Reports occupied ports before anything is started.
fn free(parts: &[Part]) -> Result<()> {
    for (index, part) in parts.iter().enumerate() {
        if let Some(other) = parts[..index].iter().find(|other| other.port == part.port) {
            return Err(ServiceError::Usage(format!("{} and {} have the same port {} in the configuration", other.name, part.name, part.port)));
        }
        if let Err(error) = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, part.port))) {
            let setting = match part.name.as_str() {
                name @ ("registry" | "page") => format!("[team] {name}_port"),
                name => format!("[team.ports] {name}"),
            };
            return Err(ServiceError::Usage(format!(
                "port {} for the {} is taken ({error}); end what listens there, or set {setting} in the configuration",
                part.port, part.name
            )));
        }
    }
    Ok(())
}

async fn supervise(parts: Vec<Part>, log: Log) -> Result<Exit> {
    let program = std::env::current_exe()?;
    log.print_line("up", &format!("one log for all: {}", log.path.display()));
    for (name, address) in parts.last().iter().flat_map(|page| &page.environment) {
        log.print_line("up", &format!("{name}={address}"));
    }
    if let Some(page) = parts.last() {
        log.print_line("up", &format!("the {} is at http://127.0.0.1:{}", page.name, page.port));
    }
    let (stop, stopping) = watch::channel(false);
    let keepers: Vec<_> = parts.into_iter().map(|part| tokio::spawn(keep(program.clone(), part, log.clone(), stopping.clone()))).collect();
    let mut all = MemberTasks(keepers);
    let exit = tokio::select! {
        exit = super::registry::stopped() => Ok(exit),
        // A part that cannot be started at all stops the others too.
        end = all.first() => end,
    };
    log.print_line("up", "stopping");
    // No receiver means that all processes have exited.
    let _ = stop.send(true);
    all.join_all().await;
    log.print_line("up", "all stopped");
    exit
}

/// Restarts a part until it is stopped. The error is why it cannot be started.
async fn keep(program: PathBuf, part: Part, log: Log, mut stopping: watch::Receiver<bool>) -> Result<Exit> {
    let mut pause = PAUSE_MIN;
    loop {
        let begun = Instant::now();
        let mut child = Command::new(&program)
            .args(&part.arguments)
            .envs(part.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| ServiceError::Failed(format!("the {} cannot be started: {error}", part.name)))?;
        log.follow(&part.name, child.stdout.take());
        log.follow(&part.name, child.stderr.take());
        let ended = tokio::select! {
            ended = child.wait() => ended?,
            _ = stopping.changed() => {
                end(&part.name, &mut child, &log).await;
                return Ok(Exit::Well);
            }
        };
        // A configuration error does not resolve itself.
        if ended.code() == Some(2) && begun.elapsed() < LIFE_LONG {
            return Err(ServiceError::Usage(format!("the {} cannot be started as it is configured; its last output is above", part.name)));
        }
        if begun.elapsed() > LIFE_LONG {
            pause = PAUSE_MIN;
        }
        log.print_line("up", &format!("the {} exited ({ended}) and is started again in {:.1} s", part.name, pause.as_secs_f32()));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.changed() => return Ok(Exit::Well),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Asks it to stop, then kills it after a timeout.
async fn end(name: &str, child: &mut Child, log: &Log) {
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
        let asked = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM);
        if asked.is_ok() && tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
            return;
        }
    }
    log.print_line("up", &format!("the {name} did not stop in {} s and is ended", GRACE.as_secs()));
    if let Err(error) = child.kill().await {
        log.print_line("up", &format!("the {name} cannot be ended: {error}"));
    }
}

type MemberTask = tokio::task::JoinHandle<Result<Exit>>;

struct MemberTasks(Vec<MemberTask>);

impl MemberTasks {
    /// The first that ends; normally none does, unless it cannot be started.
    async fn first(&mut self) -> Result<Exit> {
        let (ended, index) = std::future::poll_fn(|context| {
            for (index, keeper) in self.0.iter_mut().enumerate() {
                if let std::task::Poll::Ready(ended) = Future::poll(std::pin::Pin::new(keeper), context) {
                    return std::task::Poll::Ready((ended, index));
                }
            }
            std::task::Poll::Pending
        })
        .await;
        self.0.remove(index);
        ended.unwrap_or_else(|error| Err(ServiceError::Failed(format!("a process of the team could not be watched: {error}"))))
    }

    async fn join_all(self) {
        for keeper in self.0 {
            // Each has logged its own errors.
            let _ = keeper.await;
        }
    }
}

/// One log: to the terminal, and to a file beside the database.
#[derive(Clone)]
struct Log {
    path: PathBuf,
    file: Arc<Mutex<std::fs::File>>,
}

impl Log {
    fn open(folder: &Path) -> Result<Log> {
        let path = folder.join("up.log");
        let file = private::append(&path).map_err(|error| ServiceError::Folder(format!("the log {} cannot be written: {error}", path.display())))?;
        Ok(Log { path, file: Arc::new(Mutex::new(file)) })
    }

    fn print_line(&self, who: &str, line: &str) {
        let line = evidence::visible(line);
        let style = if who == "up" { BOLD } else { DIM };
        // A log that cannot be written must not stop the team.
        let _ = writeln!(anstream::stdout(), "{} {line}", paint(style, format!("{who:>10}")));
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = writeln!(file, "{who:>10} {line}");
    }

    fn follow(&self, who: &str, from: Option<impl AsyncRead + Unpin + Send + 'static>) {
        let (log, who) = (self.clone(), who.to_owned());
        let Some(from) = from else { return };
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                log.print_line(&who, &line);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_ports_in_use_are_reported() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let part = |name: &str, port| Part { name: name.to_owned(), port, arguments: Vec::new(), environment: Vec::new() };
        let why = free(&[part("writer", port)]).unwrap_err().to_string();
        assert!(why.contains(&format!("port {port} for the writer is taken")) && why.contains("[team.ports] writer"), "{why}");
        let twice = free(&[part("writer", 0), part("mailer", 0)]).unwrap_err().to_string();
        assert!(twice.contains("writer and mailer have the same port"), "{twice}");
    }
}
