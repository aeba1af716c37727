//! Standard base64 with padding, the JSON form of Go's `[]byte`.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = group >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The decoded bytes, or the offset of the first invalid character. Line breaks are skipped.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits, mut padding) = (0_u32, 0_u8, 0_u8);
    for (at, byte) in text.bytes().enumerate() {
        if matches!(byte, b'\r' | b'\n') {
            continue;
        }
        let value = if byte == b'=' && digits >= 2 {
            padding += 1;
            0
        } else {
            value_of(byte).filter(|_| padding == 0).ok_or(at)?
        };
        group = group << 6 | value;
        digits += 1;
        if digits == 4 {
            let [_, whole @ ..] = group.to_be_bytes();
            bytes.extend_from_slice(whole.get(..3 - usize::from(padding)).unwrap_or_default());
            (group, digits) = (0, 0);
        }
    }
    if digits == 0 { Ok(bytes) } else { Err(text.len()) }
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
