//! Google Chat: a card with a section for the text and one for each field.

use serde_json::{Value, json};

use super::{Notice, markup::html as safe};

/// The message.
pub(super) fn body(notice: &Notice) -> Value {
    let strong = |text: &str| format!("<font color=#848484><strong>{}</strong></font>", safe(text));
    let section = |text: String| json!({ "widgets": [{ "textParagraph": { "text": text } }] });
    let mut sections = vec![section(strong(&notice.text))];
    for field in &notice.fields {
        sections.push(section(format!("{}<br>{}", safe(&field.name), strong(&field.value))));
    }
    json!({
        "cards": [{
            "header": {
                "title": "Flagger",
                "subtitle": notice.sender(),
                "imageUrl": "https://flagger.app/favicon.png",
            },
            "sections": sections,
        }],
    })
}
