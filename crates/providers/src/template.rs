//! Query templates: Go's `text/template` with eight functions and nothing that touches the world.
//!
//! A [`Model`] has the values that a template can use; it is checked when it is made, so that a name or an
//! interval can never end a literal of the query it is put into. Variables are the user's own and go in
//! unchanged: people keep whole expressions in them. [`render`] fills a template in. [`render_confined`] does so
//! for a template with a login of another namespace, and refuses variables that are more than values there.
//!
//! A template comes from any user who may write one, so it runs on a [`budget`]: its text, the
//! values it makes, the steps it takes and the text it prints are all bounded.

mod blocks;
mod budget;
mod inserted;
mod language;
mod model;

use gotmpl::{MissingKey, Template, TemplateError, Value};

pub(crate) use self::model::is_interval;
use self::{
    budget::{Budget, OUTPUT_MAX},
    inserted::Output,
};
pub use self::{
    language::QueryLanguage,
    model::{Model, ModelError},
};
use crate::hook::excerpt;

/// A template that does not render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template {template} does not render: {}{problem}", at(*line))]
pub struct RenderError {
    /// Which template, as the caller calls it.
    pub template: String,
    /// The line of the failed action, from 1; nothing if rendering did not begin.
    pub line: Option<usize>,
    /// Why.
    pub problem: Problem,
}

/// Why a template does not render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is too long.
    #[error("it is longer than {} KiB", SOURCE_MAX / 1024)]
    TooLong,
    /// The rendered text is too long for a query.
    #[error("it renders to more than {} KiB", OUTPUT_MAX / 1024)]
    TooMuch,
    /// It takes more steps, or builds larger values, than rendering a query needs.
    #[error("it does too much work")]
    TooBusy,
    /// It renders to blanks.
    #[error("it renders to nothing")]
    Blank,
    /// It is not a template, at this line.
    #[error("line {line}: {why}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The problem there, shortened.
        why: String,
    },
    /// It names a variable that the metric does not set, or a field of something that has none.
    #[error("there is no {0:?}")]
    Missing(String),
    /// A variable has this character outside of strings.
    #[error(
        "a variable has {0:?} outside of a string, where a template of another namespace with a secretRef takes letters, digits and \"_.:-\" only"
    )]
    OutsideString(char),
    /// A variable would begin or end a string, a comment or an escape with this character.
    #[error(
        "a variable has {0:?} where it changes the query, which a template of another namespace with a secretRef does not take"
    )]
    Structure(char),
    /// The name of a variable has characters that its value may not have.
    #[error(
        "the name of a variable has a quote, a backslash or a line end, which a template of another namespace with a secretRef does not take"
    )]
    VariableName,
    /// Anything else, shortened.
    #[error("{0}")]
    Failed(String),
}

/// Longest template. Queries have a few lines; 64 KiB is room for a generated one.
const SOURCE_MAX: usize = 64 * 1024;
/// The name of the template proper among the templates it defines.
const ENTRY: &str = "query";

/// The query a template makes for a canary. `template` is its name, for errors.
///
/// As in Go, `{{ variables.key }}` fails where there is no such key and `{{ index variables "key"
/// }}` is empty. Unlike there, a value that does not exist is an error and not the text `<no
/// value>`, which no server takes for a query.
pub fn render(template: &str, source: &str, model: &Model) -> Result<String, RenderError> {
    rendered(template, source, model).map(|output| output.text)
}

/// The same for a template of another namespace that has a login: fails where a variable would be more than a value
/// in its query. The variables are those of [`Model::for_foreign_template`].
pub fn render_confined(
    template: &str,
    source: &str,
    model: &Model,
    language: QueryLanguage,
) -> Result<String, RenderError> {
    let failed = |line, problem| RenderError { template: template.to_owned(), line, problem };
    if !model.has_tame_keys() {
        return Err(failed(None, Problem::VariableName));
    }
    let output = rendered(template, source, model)?;
    let checked = language::check(&output.text, &output.inserted, language);
    checked.map_err(|(line, problem)| failed(Some(line), problem))?;
    Ok(output.text)
}

fn rendered(template: &str, source: &str, model: &Model) -> Result<Output, RenderError> {
    let budget = Budget::default();
    run(source, model, &budget).map_err(|problem| {
        let line = budget.line().filter(|_| problem != Problem::Blank);
        RenderError { template: template.to_owned(), line, problem }
    })
}

fn at(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

fn run(source: &str, model: &Model, budget: &Budget) -> Result<Output, Problem> {
    if source.len() > SOURCE_MAX {
        return Err(Problem::TooLong);
    }
    blocks::check(source)?;
    let parsed = Template::new(ENTRY).parse(source).map_err(|error| Problem::of(&error))?;
    let mut output = Output::default();
    let mut guarded = Template::new(ENTRY)
        .missing_key(MissingKey::Error)
        .max_range_iters(budget::RANGE_MAX)
        .funcs(output.functions())
        .funcs(budget.functions())
        .funcs(model.functions());
    for name in parsed.templates() {
        let Some(tree) = parsed.lookup(name) else { continue };
        guarded = guarded.add_parse_tree(name, inserted::note(budget::guard(tree)?));
    }
    if guarded.lookup(ENTRY).is_none() {
        return Err(Problem::Blank);
    }
    // Go's dot is nothing at all here; an empty map also has no fields, and fails when one is used.
    let dot = Value::Map(std::sync::Arc::default());
    match guarded.execute_template_fmt(&mut output, ENTRY, &dot) {
        Ok(()) if output.text.trim().is_empty() => Err(Problem::Blank),
        Ok(()) => Ok(output),
        Err(_) if output.is_full => Err(Problem::TooMuch),
        Err(_) if budget.is_spent() => Err(Problem::TooBusy),
        Err(error) => Err(Problem::of(&error)),
    }
}

// === impl Problem ===

impl Problem {
    fn of(error: &TemplateError) -> Self {
        match error {
            TemplateError::Parse { line, message, .. }
            | TemplateError::Lex { line, message, .. } => {
                Self::Syntax { line: *line, why: excerpt(message.as_bytes()) }
            }
            TemplateError::MissingKey { key } => Self::Missing(excerpt(key.as_bytes())),
            TemplateError::RangeIterLimit | TemplateError::RecursionLimit => Self::TooBusy,
            TemplateError::Exec(message) => Self::Failed(excerpt(message.as_bytes())),
            other => Self::Failed(excerpt(other.to_string().as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests;
