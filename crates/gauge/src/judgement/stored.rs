//! Writes a result file: the result, and what is judged of it for other programs.

use super::Judgement;
use crate::Error;
use crate::rank::{EffectiveClass, Ranking};
use crate::result::RunResult;
use crate::row::Row;
use seawall_host::output::replace;
use serde::Serialize;
use std::borrow::Cow;
use std::path::Path;

impl RunResult {
    /// The result as the text of its file, with its judgement.
    ///
    /// # Errors
    /// A figure has no form in JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        #[derive(Serialize)]
        struct File<'a> {
            #[serde(flatten)]
            result: &'a RunResult,
            judgement: Judgement,
        }
        let ranking = Ranking::new(self);
        let judgement = Judgement::of(&ranking);
        let taken_back: Vec<&Row> = ranking.of(EffectiveClass::NotConfirmed).map(|row| row.row).collect();
        let mut result = Cow::Borrowed(self);
        for (index, row) in self.study.rows.iter().enumerate() {
            if taken_back.iter().any(|other| std::ptr::eq(*other, row))
                && let Some(measured) = result.to_mut().study.rows[index].measured_mut()
            {
                measured.take_back();
            }
        }
        let file = File { result: &result, judgement };
        serde_json::to_string_pretty(&file).map(|text| text + "\n").map_err(Error::Json)
    }

    /// Writes the result to `path`, by way of a temporary file next to it, so that an interruption leaves the
    /// last whole state.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        replace(path, self.to_json()?.as_bytes()).map_err(|error| {
            let source = error.into_source();
            Error::Io { operation: "write", path: path.to_owned(), source }
        })
    }
}
