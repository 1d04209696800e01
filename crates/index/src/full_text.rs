//! Full text: tantivy on disk, read through the page cache. Passages are stored in it too, so there is one source of truth.
//!
//! A row is the position of a document in one opened state of the index: dense, and valid only for that state.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tantivy::collector::TopDocs;
use tantivy::directory::error::LockError;
use tantivy::index::SegmentId;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value};
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{DocAddress, DocId, IndexReader, IndexWriter, ReloadPolicy, Score, Searcher, SegmentReader, TantivyDocument, TantivyError, Term};

use crate::Error;
use crate::passage::Passage;
use crate::words::{self, TermTokenizer};

const TOKENIZER: &str = "words";
/// One writer thread: text arrives as fast as files are read, and a single segment is searched fastest.
const WRITER_BYTES: usize = 64 << 20;
/// A word in a title weighs more than one in the text of a passage.
const TITLE_BOOST: f32 = 1.0;
/// Terms of a question; more would cost time without benefit.
const TERMS_MAX: usize = 200;

pub(crate) struct FullText {
    index: tantivy::Index,
    reader: IndexReader,
    fields: Fields,
}

#[derive(Clone, Copy)]
struct Fields {
    file: Field,
    title: Field,
    body: Field,
    kept: Field,
}

/// A stored passage, with its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredPassage {
    pub(crate) file: String,
    /// When the file was last changed, in seconds since 1970.
    pub(crate) at: Option<i64>,
    pub(crate) passage: Passage,
}

impl FullText {
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let (schema, fields) = schema();
        let directory = tantivy::directory::MmapDirectory::open(folder).map_err(TantivyError::from)?;
        let index = tantivy::Index::open_or_create(directory, schema)?;
        index.tokenizers().register(TOKENIZER, TextAnalyzer::builder(TermTokenizer).build());
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(FullText { index, reader, fields })
    }

    pub(crate) fn writer(&self) -> Result<Writer, Error> {
        match self.index.writer_with_num_threads(1, WRITER_BYTES) {
            Ok(writer) => Ok(Writer { writer, fields: self.fields }),
            Err(TantivyError::LockFailure(LockError::LockBusy, _)) => Err(Error::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// The state of the last commit.
    pub(crate) fn state(&self) -> Result<State, Error> {
        self.reader.reload()?;
        let searcher = self.reader.searcher();
        let mut starts = Vec::new();
        let mut next = 0;
        for segment in searcher.segment_readers() {
            starts.push(next);
            next += segment.max_doc();
        }
        Ok(State { searcher, fields: self.fields, starts, rows: next })
    }
}

pub(crate) struct Writer {
    writer: IndexWriter,
    fields: Fields,
}

impl Writer {
    pub(crate) fn remove(&mut self, file: &str) {
        self.writer.delete_term(Term::from_field_text(self.fields.file, file));
    }

    pub(crate) fn add(&mut self, kept: &StoredPassage) -> Result<(), Error> {
        let mut document = TantivyDocument::default();
        let passage = &kept.passage;
        document.add_text(self.fields.file, &kept.file);
        document.add_text(self.fields.title, &passage.title);
        document.add_text(self.fields.body, &passage.text);
        // Outer headings describe a passage, though less than its own.
        document.add_text(self.fields.body, passage.headings.join(" "));
        document.add_text(self.fields.kept, serde_json::to_string(kept).map_err(|error| Error::Broken(error.to_string()))?);
        self.writer.add_document(document)?;
        Ok(())
    }

    pub(crate) fn commit(mut self) -> Result<(), Error> {
        self.writer.commit()?;
        self.writer.wait_merging_threads()?;
        Ok(())
    }
}

pub(crate) struct State {
    searcher: Searcher,
    fields: Fields,
    /// The first row of each segment.
    starts: Vec<u32>,
    /// One past the last row; some of them are deleted.
    pub(crate) rows: u32,
}

impl State {
    /// The best rows. With `visible`, only rows that are true in it are ranked.
    pub(crate) fn search(&self, question: &str, count: usize, visible: Option<&Arc<Vec<bool>>>) -> Result<Vec<u32>, Error> {
        let mut terms: Vec<(String, f32)> = Vec::new();
        for term in words::terms(question) {
            if let Some((_, times)) = terms.iter_mut().find(|(known, _)| *known == term) {
                *times += 1.0;
            } else if terms.len() < TERMS_MAX {
                terms.push((term, 1.0));
            }
        }
        if terms.is_empty() || count == 0 {
            return Ok(Vec::new());
        }
        let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for (term, times) in terms {
            for (field, boost) in [(self.fields.body, 1.0), (self.fields.title, TITLE_BOOST)] {
                let query = TermQuery::new(Term::from_field_text(field, &term), IndexRecordOption::WithFreqs);
                clauses.push((Occur::Should, Box::new(BoostQuery::new(Box::new(query), boost * times))));
            }
        }
        let (query, best) = (BooleanQuery::new(clauses), TopDocs::with_limit(count));
        let row = |address: DocAddress| self.starts[address.segment_ord as usize] + address.doc_id;
        let Some(visible) = visible else {
            return Ok(self.searcher.search(&query, &best.order_by_score())?.into_iter().map(|(_, address)| row(address)).collect());
        };
        let found = self.searcher.search(&query, &best.tweak_score(self.visible_score(visible)))?;
        Ok(found.into_iter().filter(|(score, _)| *score > f32::NEG_INFINITY).map(|(_, address)| row(address)).collect())
    }

    /// Scores invisible rows below all others.
    fn visible_score(&self, visible: &Arc<Vec<bool>>) -> impl Fn(&SegmentReader) -> Box<dyn Fn(DocId, Score) -> Score> + Send + Sync + 'static {
        let starts: HashMap<SegmentId, u32> =
            self.searcher.segment_readers().iter().map(SegmentReader::segment_id).zip(self.starts.iter().copied()).collect();
        let visible = visible.clone();
        move |segment| {
            let (start, visible) = (starts.get(&segment.segment_id()).copied(), visible.clone());
            Box::new(move |document, score| {
                let is_visible = start.and_then(|start| visible.get((start + document) as usize)).copied().unwrap_or(false);
                if is_visible { score } else { Score::NEG_INFINITY }
            })
        }
    }

    pub(crate) fn kept(&self, row: u32) -> Result<StoredPassage, Error> {
        let segment = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        self.parsed(&self.searcher.doc(DocAddress::new(segment as u32, row - self.starts[segment]))?)
    }

    /// Every row that is not deleted.
    pub(crate) fn all(&self, mut see: impl FnMut(u32, StoredPassage)) -> Result<(), Error> {
        for (segment, start) in self.searcher.segment_readers().iter().zip(&self.starts) {
            let store = segment.get_store_reader(8).map_err(TantivyError::from)?;
            for document in segment.doc_ids_alive() {
                see(start + document, self.parsed(&store.get(document)?)?);
            }
        }
        Ok(())
    }

    /// Number of passages with a term.
    pub(crate) fn passages_with(&self, term: &str) -> Result<u64, Error> {
        Ok(self.searcher.doc_freq(&Term::from_field_text(self.fields.body, term))?)
    }

    fn parsed(&self, document: &TantivyDocument) -> Result<StoredPassage, Error> {
        let text = document.get_first(self.fields.kept).and_then(|value| value.as_str()).unwrap_or_default();
        serde_json::from_str(text).map_err(|error| Error::Broken(error.to_string()))
    }
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let words = TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_index_option(IndexRecordOption::WithFreqs).set_fieldnorms(true);
    let words = TextOptions::default().set_indexing_options(words);
    let fields = Fields {
        file: schema.add_text_field("file", STRING),
        title: schema.add_text_field("title", words.clone()),
        body: schema.add_text_field("body", words),
        kept: schema.add_text_field("kept", TextOptions::default() | STORED),
    };
    (schema.build(), fields)
}
