//! Microsoft Teams: a `MessageCard`, as connectors and workflows take it.

use serde_json::{Value, json};

use super::{Notice, Severity, markup::markdown_in_html as safe};

/// The message.
pub(super) fn body(notice: &Notice) -> Value {
    let color = match notice.severity {
        Severity::Info | Severity::Warn => "0076D7",
        Severity::Error => "FF0000",
    };
    let facts: Vec<_> = notice
        .fields
        .iter()
        .map(|field| json!({ "name": safe(&field.name), "value": safe(&field.value) }))
        .collect();
    json!({
        "@type": "MessageCard",
        "@context": "http://schema.org/extensions",
        "themeColor": color,
        "summary": notice.sender(),
        "sections": [{
            "activityTitle": safe(&notice.text),
            "activitySubtitle": notice.sender(),
            "facts": facts,
        }],
    })
}
