//! Pulls weights: `pull FOLDER [NAME]`. What `baton models pull` will do.

use std::path::PathBuf;

use world::model::embedded::weights;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder: PathBuf = arguments.next().expect("a folder").into();
    let name = arguments.next();
    let model = weights::all().into_iter().find(|model| name.as_ref().is_none_or(|name| *name == model.name)).expect("a known name");
    let tell = |step: weights::Step| eprint!("\r{}: {} of {} MB ", step.source, step.done_bytes >> 20, step.total_bytes >> 20);
    match weights::pull(&model, &folder, &weights::Sources::all(None), &tell).await {
        Ok(pulled) => println!("\n{} from {}; failed: {:?}", pulled.path.display(), pulled.source, pulled.failed),
        Err(error) => println!("\n{error}"),
    }
}
