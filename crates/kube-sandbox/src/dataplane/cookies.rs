//! The cookie jar of one simulated client, for session affinity.

use http::HeaderValue;

/// Names with their values, in the order they were first set.
#[derive(Debug, Clone, Default)]
pub(super) struct Jar(Vec<(String, String)>);

/// No route sets more cookies; a bound on memory.
const COOKIES_MAX: usize = 32;

// === impl Jar ===

impl Jar {
    /// Applies one `Set-Cookie`: adds or replaces a cookie, or removes it if its age is zero.
    pub(super) fn take(&mut self, header: &HeaderValue) {
        let Ok(text) = header.to_str() else { return };
        let mut parts = text.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let max_age = parts.find_map(|attribute| {
            let (key, value) = attribute.split_once('=')?;
            key.trim().eq_ignore_ascii_case("max-age").then_some(value.trim())
        });
        let is_over = max_age.and_then(|age| age.parse::<i64>().ok()).is_some_and(|age| age <= 0);
        if is_over {
            self.0.retain(|(known, _)| known != name);
        } else if let Some((_, old)) = self.0.iter_mut().find(|(known, _)| known == name) {
            value.clone_into(old);
        } else if self.0.len() < COOKIES_MAX {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The `Cookie` header; empty without cookies.
    pub(super) fn header(&self) -> String {
        let pairs: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_keeps_replaces_and_forgets() {
        let mut jar = Jar::default();
        let steps = [
            ("a=1; Max-Age=86400", "a=1"),
            ("b=2; Path=/; HttpOnly", "a=1; b=2"),
            ("a=3", "a=3; b=2"),
            ("a=3; max-age=-1", "b=2"),
            ("nonsense", "b=2"),
        ];
        for (header, want) in steps {
            jar.take(&HeaderValue::from_static(header));
            assert_eq!(jar.header(), want, "{header}");
        }
    }
}
