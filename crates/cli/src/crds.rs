//! `tidegate crds`: the custom resource definitions.

use anyhow::Context;

use crate::printer::Printer;

/// Print the custom resource definitions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidegate crds | kubectl apply -f -")]
pub(crate) struct Args {
    /// How to print them: one YAML document each, or one JSON List.
    #[arg(long, short, value_enum, default_value_t = Output::Yaml)]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
}

pub(crate) fn run(args: &Args, printer: &Printer) -> anyhow::Result<()> {
    let crds = tidegate_api::crds();
    let text = match args.output {
        Output::Yaml => tidegate_api::to_yaml(&crds),
        Output::Json => {
            let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": crds });
            serde_json::to_string_pretty(&list).context("failed to write JSON")? + "\n"
        }
    };
    printer.data(&text)?;
    Ok(())
}
