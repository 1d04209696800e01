//! Ranks tools by words and vectors, for the hub.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use index::{Model, Tool, Tools};
use mcp_hub::{Lexical, Rank, ToolInfo};

/// Vectors are used if their weights are present; nothing is downloaded.
pub(crate) struct VectorRanker {
    model: Model,
    /// The cache file of the tools' vectors.
    vectors: PathBuf,
    kept: Mutex<Option<(u64, Arc<Tools>)>>,
}

impl VectorRanker {
    pub(crate) fn new(model: Model, vectors: PathBuf) -> Self {
        VectorRanker { model, vectors, kept: Mutex::new(None) }
    }

    fn index(&self, version: u64, tools: &[Arc<ToolInfo>]) -> Result<Arc<Tools>, index::Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, index)) = &*kept
            && *known == version
        {
            return Ok(index.clone());
        }
        let listed: Vec<Tool> = tools.iter().map(|tool| as_listed(tool)).collect();
        let index = Arc::new(Tools::new(&listed, &self.model, Some(&self.vectors))?);
        *kept = Some((version, index.clone()));
        Ok(index)
    }
}

impl Rank for VectorRanker {
    fn rank(&self, version: u64, tools: &[Arc<ToolInfo>], query: &str, size: usize) -> Vec<(usize, f32)> {
        match self.index(version, tools) {
            Ok(index) => index.search(query, size).into_iter().map(|hit| (hit.index, hit.score)).collect(),
            Err(error) => {
                tracing::warn!("tools are found by their words alone: {error}");
                Lexical.rank(version, tools, query, size)
            }
        }
    }
}

fn as_listed(tool: &ToolInfo) -> Tool {
    let arguments = tool.schema.get("properties").and_then(serde_json::Value::as_object).map(|all| all.keys().cloned().collect());
    Tool {
        server: tool.server.clone(),
        about_server: String::new(),
        name: tool.name.split_once('.').map_or(tool.name.as_str(), |(_, name)| name).to_owned(),
        description: tool.description.clone(),
        arguments: arguments.unwrap_or_default(),
    }
}
