//! Base64 of secrets: the standard alphabet, padded.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0_u8; 3];
        for (slot, byte) in group.iter_mut().zip(chunk) {
            *slot = *byte;
        }
        let [a, b, c] = group;
        let bits = u32::from_be_bytes([0, a, b, c]);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            let letter = usize::try_from(index).ok().and_then(|index| LETTERS.get(index));
            text.push(if place > chunk.len() { '=' } else { char::from(*letter.unwrap_or(&b'=')) });
        }
    }
    text
}

/// The number of bytes a text stands for, or `None` if it is not base64.
pub(crate) fn decoded_len(text: &str) -> Option<usize> {
    decode(text).map(|bytes| bytes.len())
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    // Go's decoder skips line breaks.
    let letters: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    if !letters.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    let groups = letters.len() / 4;
    for (number, group) in letters.chunks(4).enumerate() {
        let padding = group.iter().rev().take_while(|b| **b == b'=').count();
        if padding > 2 || (padding > 0 && number + 1 != groups) {
            return None;
        }
        let mut bits = 0_u32;
        for letter in group {
            let value = match letter {
                b'=' => Some(0),
                letter => LETTERS.iter().position(|known| known == letter),
            };
            bits = (bits << 6) | u32::try_from(value?).ok()?;
        }
        if group.iter().take(4 - padding).any(|b| *b == b'=') {
            return None;
        }
        bytes.extend(bits.to_be_bytes().into_iter().skip(1).take(3 - padding));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_from_base64() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("fooba", "Zm9vYmE=")];
        for (plain, encoded) in cases {
            assert_eq!(encode(plain.as_bytes()), encoded, "{plain:?}");
            assert_eq!(decode(encoded).as_deref(), Some(plain.as_bytes()), "{encoded:?}");
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9!", "=Zg="] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
