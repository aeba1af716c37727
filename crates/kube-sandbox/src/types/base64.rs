//! Standard base64 with padding, the JSON form of Go's `[]byte`.

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

/// As Go's `StdEncoding`: bits after the last byte are not looked at.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

pub(crate) fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// The bytes, or the offset of the first character that does not belong. Line breaks are skipped.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let is_break = |c: char| matches!(c, '\r' | '\n');
    let joined = if text.contains(is_break) {
        Cow::Owned(text.replace(is_break, ""))
    } else {
        Cow::Borrowed(text)
    };
    ENGINE.decode(joined.as_bytes()).map_err(|_| misfit(text))
}

/// The offset that Go names: of the first character that does not belong, or the end if more should come.
fn misfit(text: &str) -> usize {
    let (mut digits, mut is_padded) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        if matches!(byte, b'\r' | b'\n') {
            continue;
        }
        let is_padding = byte == b'=' && digits >= 2;
        let is_digit = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        if !is_padding && (is_padded || !is_digit) {
            return at;
        }
        is_padded |= is_padding;
        digits = (digits + 1) % 4;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_length_comes_back() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{ff}\u{fe}?>", "w7/Dvj8+"),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded), Ok(plain.as_bytes().to_vec()));
        }
    }

    #[test]
    fn what_is_not_base64_is_refused_with_its_place() {
        for (text, at) in [("!", 0), ("Zg", 2), ("Zg=a", 3), ("Zm9v=", 4), ("Z===", 1)] {
            assert_eq!(decode(text), Err(at), "{text}");
        }
        assert_eq!(decode("Zm\n9v"), Ok(b"foo".to_vec()), "line breaks do not count");
    }
}
