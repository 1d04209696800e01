//! An answer written to a file, in the format that its file extension names.

use std::path::{Path, PathBuf};

use engine::result_of;
use graph::Outcome;
use server::backend::{Export, Format};
use store::RunRow;

use crate::answer::Answer;
use crate::exit::{Result, ServiceError};

/// A file that is to be written, checked before anything is spent on it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    path: PathBuf,
    format: Format,
}

impl Target {
    /// For clap: `report.pdf`. The folder must be there.
    pub(crate) fn parse(text: &str) -> std::result::Result<Target, String> {
        let path = PathBuf::from(text);
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
        let endings: Vec<String> = Format::ALL.iter().map(|(ending, _)| format!(".{ending}")).collect();
        let format = Format::ALL.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format);
        let format = format.ok_or_else(|| format!("the file must end in {}", endings.join(", ")))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match folder.is_dir() {
            true => Ok(Target { path, format }),
            false => Err(format!("there is no folder {}; create it first", folder.display())),
        }
    }

    /// Writes the answer of a run that is done. A file of that name is replaced.
    pub(crate) async fn write(&self, row: &RunRow) -> Result<()> {
        let Some(Outcome::Done { output }) = result_of(row).map(|closing| closing.outcome) else {
            return Err(ServiceError::Failed(format!("the run {} has no answer yet, so there is nothing to write", terminal::tail(&row.run))));
        };
        let answer = Answer::of(&output, None);
        let export = Export::of_answer(self.format, &row.title, &answer.text, answer.named_sources());
        let bytes = service::export::document(export).await.map_err(|error| ServiceError::Failed(error.to_string()))?;
        std::fs::write(&self.path, bytes).map_err(|error| ServiceError::Failed(format!("{} cannot be written: {error}", self.path.display())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_selects_the_format_and_a_wrong_one_is_an_error_that_names_the_next_step() {
        assert_eq!(Target::parse("report.PDF").map(|target| target.format), Ok(Format::Pdf));
        assert_eq!(Target::parse("report.md").map(|target| target.format), Ok(Format::Markdown));
        for (text, words) in [("report", "must end in"), ("report.odt", ".docx"), ("no/such/folder/report.md", "create it first")] {
            let why = Target::parse(text).map(|target| target.path).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
