//! `bimetal schema`: prints the JSON Schema of a document that another command prints.

use bimetal_models::spelling::nearest;
use clap::Args;

use crate::error::Error;
use crate::output::print;

/// Makes the table of the schemas: name of the document, and content of its file.
macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        /// Schemas in the order in which they are listed.
        const SCHEMAS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../schemas/", $name, ".json")))),*];
    };
}

schemas! {
    "acknowledge", "analyze", "attach", "catalog", "catalog-import", "check", "compare", "compare-traces", "convert", "create",
    "detach", "drain", "extract", "fault", "fleet", "formats", "generate", "mrc", "optimize", "place", "plan",
    "profiles", "replay", "reproduce", "reproduce-experiment", "rescue", "resize", "schemes", "serve", "set", "simulate",
    "status", "sweep", "sweep-merge", "sweep-run", "sweep-status", "trace", "upgrade", "validate",
}

/// Print the JSON Schema of a document that a command prints with --json
///
/// Without a name, the names are listed. Later versions may add keys to a document: pass over the
/// keys that you do not know.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal schema\n  \
    bimetal schema compare > compare.schema.json")]
pub(crate) struct Arguments {
    /// The name of the document: the middle of its key `schema`
    name: Option<String>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let names = || SCHEMAS.iter().map(|(name, _)| *name);
    let Some(wanted) = arguments.name else {
        return print(&names().map(|name| format!("{name}\n")).collect::<String>());
    };
    match SCHEMAS.iter().find(|(name, _)| *name == wanted) {
        Some((_, text)) => print(text),
        None => {
            let near = nearest(&wanted, names()).map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
            Err(Error::new(format!("no schema '{wanted}'{near}: `bimetal schema` lists them")))
        }
    }
}
