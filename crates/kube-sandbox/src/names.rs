//! Validation of names, labels, ports and keys, with the error texts of Kubernetes.
//!
//! Every check returns a list of errors, empty for a valid text, which a caller attaches to a
//! field. The texts are interface: `kubectl` shows them and tests compare them.

/// Sum of the bytes of all annotation keys and values of one object.
pub(crate) const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Letters of a generated suffix: no vowels and no look-alikes.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LEN: usize = 5;
/// 63, the shortest limit of any name, minus the suffix.
const PREFIX_LEN_MAX: usize = 63 - SUFFIX_LEN;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Name rule of a kind's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// `example.com`: most kinds.
    Subdomain,
    /// `my-name`: names that become part of a host name.
    Label,
    /// Anything that can stand in a URL path: RBAC, events.
    PathSegment,
}

// === impl NameRule ===

impl NameRule {
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns1123_subdomain(name),
            Self::Label => dns1123_label(name),
            Self::PathSegment => path_segment_name(name),
        }
    }

    /// Checks a `generateName`: a dash at its end is fine, more will follow.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        if self == Self::PathSegment {
            return path_segment_prefix(prefix);
        }
        match prefix.strip_suffix('-') {
            // Kubernetes replaces the last two characters by a letter, and so accepts `a--`.
            Some(rest) if !rest.is_empty() => {
                let mut masked = rest.to_owned();
                masked.pop();
                masked.push('a');
                self.check(&masked)
            }
            _ => self.check(prefix),
        }
    }
}

/// `generateName` plus five characters drawn from `random`, never longer than 63.
pub(crate) fn generate(prefix: &str, random: u64) -> String {
    let mut end = prefix.len().min(PREFIX_LEN_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix.get(..end).unwrap_or_default().to_owned();
    let mut rest = random;
    let base = SUFFIX_LETTERS.len() as u64;
    for _ in 0..SUFFIX_LEN {
        let digit = usize::try_from(rest % base).unwrap_or_default();
        name.extend(SUFFIX_LETTERS.get(digit).map(|letter| char::from(*letter)));
        rest /= base;
    }
    name
}

pub(crate) fn dns1123_label(value: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 63, "characters");
    if !is_label(value) {
        complaints.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
                         characters or '-', and must start and end with an alphanumeric character";
            pattern(words, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    complaints
}

pub(crate) fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_counting(value, "characters")
}

pub(crate) fn dns1035_label(value: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 63, "characters");
    if !(is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
                     start with an alphabetic character, and end with an alphanumeric character";
        complaints.push(pattern(words, LABEL_1035_FORMAT, &["my-name", "abc-123"]));
    }
    complaints
}

/// `*.example.com`, as an Ingress host may be.
pub(crate) fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 253, "characters");
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let words = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
                     subdomain, which must consist of lower case alphanumeric characters, '-' or \
                     '.' and end with an alphanumeric character";
        complaints.push(pattern(words, &format!(r"\*\.{SUBDOMAIN_FORMAT}"), &["*.example.com"]));
    }
    complaints
}

/// Label keys, annotation keys (lower-cased first), finalizers, condition types of pods.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    let words = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character";
    let examples = ["MyName", "my.name", "123-abc"];
    let mut complaints = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".to_owned());
            *name
        }
        [prefix, name] => {
            let found = subdomain_counting(prefix, "bytes");
            complaints.extend(found.into_iter().map(|text| format!("prefix part {text}")));
            *name
        }
        _ => {
            let text = pattern(words, QUALIFIED_FORMAT, &examples);
            return vec![format!(
                "a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        complaints.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        complaints.push(format!("name part {}", pattern(words, QUALIFIED_FORMAT, &examples)));
    }
    complaints
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 63, "bytes");
    if !(value.is_empty() || is_qualified(value)) {
        let words = "a valid label must be an empty string or consist of alphanumeric characters, \
                     '-', '_' or '.', and must start and end with an alphanumeric character";
        let format = format!("({QUALIFIED_FORMAT})?");
        complaints.push(pattern(words, &format, &["MyValue", "my_value", "12345"]));
    }
    complaints
}

pub(crate) fn path_segment_name(value: &str) -> Vec<String> {
    match value {
        "." | ".." => vec![format!("may not be '{value}'")],
        _ => path_segment_prefix(value),
    }
}

fn path_segment_prefix(value: &str) -> Vec<String> {
    let found = ["/", "%"].into_iter().filter(|part| value.contains(part));
    found.map(|part| format!("may not contain '{part}'")).collect()
}

pub(crate) fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub(crate) fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

/// The name of a container's port, by IANA's rules.
pub(crate) fn port_name(value: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 15, "characters");
    let lower = |c: char| c.is_ascii_lowercase();
    if value.is_empty() || !value.chars().all(|c| lower(c) || c.is_ascii_digit() || c == '-') {
        complaints.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !value.contains(lower) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// Environment variables: since 1.34 anything printable but `=`.
pub(crate) fn env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Vec::new();
    }
    let words = "a valid environment variable name must consist only of printable ASCII characters \
                 other than '='";
    vec![words.to_owned()]
}

/// Keys of config maps and secrets.
pub(crate) fn config_key(value: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 253, "characters");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if value.is_empty() || !value.chars().all(allowed) {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        let examples = ["key.name", "KEY_NAME", "key-name"];
        complaints.push(pattern(words, "[-._a-zA-Z0-9]+", &examples));
    }
    match value {
        "." | ".." => complaints.push(format!("must not be '{value}'")),
        _ if value.starts_with("..") => complaints.push("must not start with '..'".to_owned()),
        _ => {}
    }
    complaints
}

pub(crate) fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Vec::new();
    }
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern(words, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// `25%`.
pub(crate) fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern(words, "[0-9]+%", &["1%", "93%"])]
}

fn subdomain_counting(value: &str, unit: &str) -> Vec<String> {
    let mut complaints = longer_than(value, 253, unit);
    if !is_subdomain(value) {
        let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                     characters, '-' or '.', and must start and end with an alphanumeric character";
        complaints.push(pattern(words, SUBDOMAIN_FORMAT, &["example.com"]));
    }
    complaints
}

fn is_label(value: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bounded(value, plain) && value.bytes().all(|b| plain(b) || b == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified(value: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric();
    bounded(value, plain) && value.bytes().all(|b| plain(b) || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether the first and the last byte exist and satisfy `plain`.
fn bounded(value: &str, plain: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(|b| plain(*b)) && bytes.last().is_some_and(|b| plain(*b))
}

fn longer_than(value: &str, max: usize, unit: &str) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} {unit}")] } else { Vec::new() }
}

fn pattern(words: &str, format: &str, examples: &[&str]) -> String {
    let quoted: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{format}')", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&str) -> Vec<String>;

    #[test]
    fn good_names_pass_and_bad_names_do_not() {
        let long_label = "a".repeat(64);
        let long_domain = "a".repeat(254);
        let cases: [(&str, Check, &[&str], &[&str]); 9] = [
            (
                "a label has no dots and no capitals",
                dns1123_label,
                &["a", "a-1", "0", "1--a"],
                &["", "A", "-a", "a-", "a.b", "a_b", &long_label],
            ),
            (
                "a subdomain is labels joined by dots",
                dns1123_subdomain,
                &["a", "a.b", "1.2.3", "a--b.c"],
                &["", ".", "a..b", "a.", "a_b", "A.b", &long_domain],
            ),
            ("a 1035 label starts with a letter", dns1035_label, &["a", "a1"], &["1a", "", "a."]),
            (
                "a label key may have one prefix",
                qualified_name,
                &["a", "A_b.c", "example.com/A"],
                &["", "/a", "a/", "a/b/c", "Ex.com/a", "-a", &long_label],
            ),
            ("a label value may be empty", label_value, &["", "A.b"], &["-", "a b", &long_label]),
            ("a path segment is nearly anything", path_segment_name, &["system:x"], &[".", "a/b"]),
            (
                "a port name has a letter and single hyphens",
                port_name,
                &["http", "p-80"],
                &["", "80", "a--b", "-a", "HTTP", "sixteen-letters1"],
            ),
            ("an environment variable has no equals sign", env_var_name, &["A b"], &["", "a=b"]),
            ("a config key does not leave its directory", config_key, &["a.b", "_"], &["..a", ""]),
        ];
        for (reason, check, good, bad) in cases {
            for name in good {
                assert_eq!(check(name), Vec::<String>::new(), "{reason}: {name:?}");
            }
            for name in bad {
                assert_ne!(check(name), Vec::<String>::new(), "{reason}: {name:?}");
            }
        }
    }

    #[test]
    fn complaints_are_worded_as_kubernetes_words_them() {
        assert_eq!(
            dns1123_subdomain("A_b"),
            ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
              '-' or '.', and must start and end with an alphanumeric character (e.g. \
              'example.com', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
        );
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns1035_label("1a"),
            ["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
              with an alphabetic character, and end with an alphanumeric character (e.g. \
              'my-name',  or 'abc-123', regex used for validation is \
              '[a-z]([-a-z0-9]*[a-z0-9])?')"]
        );
        assert_eq!(
            qualified_name("/"),
            [
                "prefix part must be non-empty",
                "name part must be non-empty",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        );
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    }

    #[test]
    fn generated_names_fit_and_depend_on_the_random_number_only() {
        assert_eq!(generate("web-", 0), "web-bbbbb");
        assert_eq!(generate("web-", 26), "web-9bbbb");
        assert_eq!(generate("web-", 27), "web-bcbbb");
        assert_eq!(generate(&"x".repeat(80), u64::MAX).len(), 63);
        assert_eq!(generate(&format!("{}é", "x".repeat(57)), 1).chars().count(), 57 + SUFFIX_LEN);
    }

    #[test]
    fn a_prefix_may_end_in_a_dash_where_a_name_may_not() {
        assert_eq!(NameRule::Label.check_prefix("web-"), Vec::<String>::new());
        assert_ne!(NameRule::Label.check("web-"), Vec::<String>::new());
        assert_ne!(NameRule::Subdomain.check_prefix("Web-"), Vec::<String>::new());
        assert_eq!(NameRule::PathSegment.check_prefix("."), Vec::<String>::new());
    }
}
