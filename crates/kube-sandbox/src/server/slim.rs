//! Removes type fields from the items of a list.

/// Copies the JSON of an object to `out`, without its `apiVersion` and `kind`.
///
/// `object` is compact JSON as the store writes it: only commas and quotes at the outermost level
/// are parsed, which keeps lists of thousands of objects cheap.
pub(super) fn without_type(object: &[u8], out: &mut Vec<u8>) {
    let inner = object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    let Some(inner) = inner else { return out.extend_from_slice(object) };
    out.push(b'{');
    let mut is_first = true;
    for member in members(inner) {
        if member.starts_with(b"\"apiVersion\":") || member.starts_with(b"\"kind\":") {
            continue;
        }
        if !std::mem::replace(&mut is_first, false) {
            out.push(b',');
        }
        out.extend_from_slice(member);
    }
    out.push(b'}');
}

/// The `"key":value` pairs of an object.
fn members(inner: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let is_end = move |byte: &u8| {
        match (*byte, in_string) {
            (b'"', _) if !escaped => in_string = !in_string,
            (b'{' | b'[', false) => depth += 1,
            (b'}' | b']', false) => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = in_string && !escaped && *byte == b'\\';
        *byte == b',' && !in_string && depth == 0
    };
    inner.split(is_end).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_type_goes() {
        let cases = [
            (r#"{"apiVersion":"v1","kind":"Pod"}"#, "{}", "nothing else"),
            (
                r#"{"apiVersion":"v1","data":{"kind":"a,b","x":"\"kind\":\\"},"kind":"ConfigMap","z":[1,2]}"#,
                r#"{"data":{"kind":"a,b","x":"\"kind\":\\"},"z":[1,2]}"#,
                "names and commas inside values stay",
            ),
            ("{}", "{}", "an empty object"),
            ("null", "null", "no object"),
        ];
        for (object, want, reason) in cases {
            let mut out = Vec::new();
            without_type(object.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want, "{reason}");
        }
    }
}
