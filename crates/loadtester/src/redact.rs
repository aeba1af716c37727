//! Command lines without their secrets, for logs and answers.
//!
//! Secrets can only be guessed: by the word before them, by their flag, by their place in an address. Too much
//! hidden does less harm than too little.

use std::borrow::Cow;

/// The next words to hide.
#[derive(Default)]
struct Redaction {
    words: u8,
    /// All up to where this is closed.
    quote: Option<char>,
}

const HIDDEN: &str = "***";
/// Words that secrets are called by.
const SECRET: [&str; 8] =
    ["authorization", "token", "password", "passwd", "secret", "api-key", "apikey", "cookie"];

/// The line with its blanks as they are.
pub(crate) fn redacted(line: &str) -> String {
    let mut redaction = Redaction::default();
    let mut shown = String::with_capacity(line.len());
    for piece in line.split_inclusive(|c: char| c.is_ascii_whitespace()) {
        let word = piece.trim_ascii_end();
        shown.push_str(&redaction.show(word));
        shown.push_str(piece.get(word.len()..).unwrap_or_default());
    }
    shown
}

// === impl Redaction ===

impl Redaction {
    fn show<'a>(&mut self, word: &'a str) -> Cow<'a, str> {
        if word.is_empty() {
            return word.into();
        }
        if let Some(quote) = self.quote {
            if word.contains(quote) {
                *self = Self::default();
            }
            return HIDDEN.into();
        }
        let is_hidden = self.words > 0;
        let lower = word.to_ascii_lowercase();
        let names_secret = SECRET.iter().any(|it| lower.contains(it));
        self.words = match (names_secret, self.words) {
            // `Authorization: Bearer x` is three words.
            (true, _) if lower.ends_with(':') => 2,
            (true, _) if !word.contains('=') => 1,
            _ if matches!(word, "-u" | "--user" | "-a") => 1,
            (_, left) => left.saturating_sub(1),
        };
        if names_secret || is_hidden {
            self.quote = opened(word);
        }
        if is_hidden {
            return HIDDEN.into();
        }
        if word.contains("://") {
            return address(word).into();
        }
        match word.split_once(['=', ':']) {
            Some(("--user", _)) => "--user=***".into(),
            Some((flag, _)) if flag.starts_with("-u") => "-u***".into(),
            Some((name, value)) if names_secret && !value.is_empty() => {
                format!("{name}={HIDDEN}").into()
            }
            _ => word.into(),
        }
    }
}

/// The quote that a word opens and does not close.
fn opened(word: &str) -> Option<char> {
    let quote = word.chars().find(|c| matches!(c, '\'' | '"'))?;
    let is_open = word.matches(quote).count() % 2 == 1;
    let is_last = word.trim_end_matches([';', ')', '|', '&']).ends_with(quote);
    (is_open && !is_last).then_some(quote)
}

/// An address without its query and without the name and password it may begin with.
fn address(word: &str) -> String {
    let (place, query) = word.split_once('?').map_or((word, ""), |(place, _)| (place, "?***"));
    match (place.split_once("://"), place.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, after))) => format!("{scheme}://***@{after}{query}"),
        _ => format!("{place}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_secrets_are_hidden() {
        let cases = [
            ("curl -H 'Authorization: Bearer s3cr3t' a", "curl -H 'Authorization: *** *** a"),
            ("curl -H Authorization: Bearer s3cr3t a", "curl -H Authorization: *** *** a"),
            ("curl -H Authorization:Bearer s3cr3t a", "curl -H Authorization=*** *** a"),
            ("curl -b 'Cookie: a=s3; b=s3; c=s3' a", "curl -b 'Cookie: *** *** *** a"),
            ("sh -c \"x --token s3\" && y", "sh -c \"x --token *** && y"),
            ("x --token \"s3 s3\" y", "x --token *** *** y"),
            ("curl -ujoe:s3 --user=joe:s3 -u joe:s3 a", "curl -u*** --user=*** -u *** a"),
            ("PGPASSWORD=s3 psql", "PGPASSWORD=*** psql"),
            ("curl -d '{\"password\": \"s3 s3\"}' a", "curl -d '{\"password\": *** *** a"),
            ("curl https://joe:s3@b/x?t=s3", "curl https://***@b/x?***"),
        ];
        for (line, want) in cases {
            assert_eq!(redacted(line), want);
        }
    }

    #[test]
    fn the_rest_stays_as_it_is() {
        for line in
            ["", " ", "false", "echo no >&2; kill -9 $$", "a\n\tb  'c d'\n", "helm test -u x"]
        {
            let want = line.replace("-u x", "-u ***");
            assert_eq!(redacted(line), want);
        }
    }
}
