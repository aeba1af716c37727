//! Microsoft Teams: a `MessageCard`, as connectors take it, or an Adaptive Card, as workflows do.

use serde_json::{Value, json};

use super::{
    Notice, Severity,
    markup::{markdown, markdown_in_html as safe},
};

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

/// The message for a workflow. Such a card knows three degrees of severity.
pub(super) fn adaptive(notice: &Notice) -> Value {
    let color = match notice.severity {
        Severity::Info => "Good",
        Severity::Warn => "Warning",
        Severity::Error => "Attention",
    };
    let sender = notice.sender();
    let mut body = vec![
        json!({ "type": "TextBlock", "text": markdown(&sender), "weight": "Bolder", "wrap": true }),
        json!({ "type": "TextBlock", "text": markdown(&notice.text), "color": color, "wrap": true }),
    ];
    if !notice.fields.is_empty() {
        let fact =
            |name: &str, value: &str| json!({ "title": markdown(name), "value": markdown(value) });
        let facts: Vec<_> = notice.fields.iter().map(|it| fact(&it.name, &it.value)).collect();
        body.push(json!({ "type": "FactSet", "facts": facts }));
    }
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
}
