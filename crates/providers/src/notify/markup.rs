//! Text from outside, made harmless.
//!
//! Error texts and names are shown by chats that read markup in them: links that lie, mentions that
//! notify whole channels. Each function here keeps the text and removes its markup.

use crate::hook::is_visible;

/// Characters of one text that are sent. The tightest service, Discord, takes 1024 in a field.
const TEXT_MAX: usize = 1000;

/// For Slack: three characters start anything that acts.
pub(super) fn mrkdwn(text: &str) -> String {
    entities(text)
}

/// For readers of Markdown: a backslash before characters that format or link, and no mentions.
pub(super) fn markdown(text: &str) -> String {
    let mut safe = String::new();
    for c in plain(text).chars() {
        if r"\*_~`|[]<>#".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
        if c == '@' {
            // Invisible, and enough for `@everyone` to be two words.
            safe.push('\u{200b}');
        }
    }
    safe
}

/// For readers of both HTML and Markdown.
pub(super) fn markdown_in_html(text: &str) -> String {
    let mut safe = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if r"\*_~`|[]#".contains(c) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

/// For readers of HTML.
pub(super) fn html(text: &str) -> String {
    entities(text)
}

/// No markup at all, but bounded, and without characters that are not text.
pub(super) fn plain(text: &str) -> String {
    let shown = text.chars().filter(|c| *c == '\n' || !c.is_control() && is_visible(*c));
    let mut plain: String = shown.take(TEXT_MAX + 1).collect();
    if let Some((cut, _)) = plain.char_indices().nth(TEXT_MAX) {
        plain.truncate(cut);
        plain.push('\u{2026}');
    }
    plain
}

fn entities(text: &str) -> String {
    plain(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
