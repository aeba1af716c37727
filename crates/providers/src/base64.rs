//! Standard base64 with padding, as the values of a Secret are written.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = ALPHABET.get((group >> (18 - 6 * place) & 63) as usize);
            text.push(match digit {
                Some(digit) if place <= chunk.len() => char::from(*digit),
                _ => '=',
            });
        }
    }
    text
}

/// The text as bytes, unless a character does not belong.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits, mut padding) = (0_u32, 0_u8, 0_usize);
    for byte in text.bytes() {
        let value = if byte == b'=' && digits >= 2 {
            padding += 1;
            0
        } else {
            value_of(byte).filter(|_| padding == 0)?
        };
        group = group << 6 | value;
        digits += 1;
        if digits == 4 {
            let [_, whole @ ..] = group.to_be_bytes();
            bytes.extend_from_slice(whole.get(..3 - padding)?);
            (group, digits) = (0, 0);
        }
    }
    (digits == 0).then_some(bytes)
}

fn value_of(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_padded_to_four() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
        assert_eq!(encode(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["Z", "Zg", "Zg=", "=g==", "Zg==Zg==", "Z\ng==", "Zm9ü"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn no_text_is_too_strange_to_decode(text: String) {
            let _ = decode(&text);
        }
    }
}
