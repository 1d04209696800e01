use std::io::Write as _;

use engine::Delivery;
use service::global_args::GlobalArgs;
use service::wiring;
use terminal::tail;

use crate::exit::{Exit, Result};
use crate::find;

/// Cancel a run and its children, whichever process drives them
#[derive(clap::Args)]
pub(crate) struct Cancel {
    run: String,
    /// The reason, shown in `runs show`
    #[arg(long, default_value = "cancelled by the user")]
    reason: String,
}

impl Cancel {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result<Exit> {
        wiring::block_on(async {
            let engine = wiring::idle_engine(globals).await?;
            let row = find::run(&**engine.store(), &self.run).await?;
            let short = tail(&row.run);
            match engine.cancel(&row.run, &self.reason).await? {
                Delivery::Taken => {
                    // Its children end first.
                    engine.wait(&row.run).await?;
                    writeln!(anstream::stdout(), "cancelled {short}")?;
                }
                Delivery::Posted => {
                    writeln!(anstream::stdout(), "asked the process that drives {short} to cancel it; `baton runs watch {short}` shows when it has")?;
                }
            }
            Ok(Exit::Well)
        })
    }
}
