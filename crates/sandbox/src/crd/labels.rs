//! DNS names, and what Kubernetes says of names that are none.

/// Why a text is no DNS-1035 label, if it is not: `my-name`.
pub(super) fn refuse_label(text: &str) -> Option<String> {
    let fits = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && text.bytes().all(is_label_byte)
        && !text.ends_with('-');
    let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
                 with an alphabetic character, and end with an alphanumeric character (e.g. \
                 'my-name',  or 'abc-123', regex used for validation is \
                 '[a-z]([-a-z0-9]*[a-z0-9])?')";
    refuse(text, 63, fits, words)
}

/// Why a text is no DNS-1123 subdomain, if it is not: `example.com`.
pub(super) fn refuse_subdomain(text: &str) -> Option<String> {
    let fits = text.split('.').all(|part| {
        !part.is_empty()
            && part.bytes().all(is_label_byte)
            && !part.starts_with('-')
            && !part.ends_with('-')
    });
    let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    refuse(text, 253, fits, words)
}

fn refuse(text: &str, most: usize, fits: bool, words: &str) -> Option<String> {
    let long = (text.len() > most).then(|| format!("must be no more than {most} characters"));
    let reasons: Vec<String> = long.into_iter().chain((!fits).then(|| words.to_owned())).collect();
    (!reasons.is_empty()).then(|| reasons.join(","))
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}
