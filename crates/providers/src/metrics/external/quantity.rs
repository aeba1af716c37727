//! Numbers as Kubernetes writes them: `1111100u`, `500m`, `2k`, `1Ki`, `12e3`.

/// Suffixes, the longer ones first where one begins another.
const SUFFIXES: [(&str, f64); 16] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e9),
    ("u", 1e6),
    ("m", 1e3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// The number. Nothing if it is none, and never NaN or infinite: neither can be written.
pub(super) fn parse(text: &str) -> Option<f64> {
    let digits = |c: char| c.is_ascii_digit() || ".+-eE".contains(c);
    for (suffix, scale) in SUFFIXES {
        let Some(number) = text.strip_suffix(suffix) else { continue };
        if number.is_empty() || !number.chars().all(digits) {
            continue;
        }
        let Ok(number) = number.parse::<f64>() else { continue };
        // Dividing keeps `1111100u` the number nearest to 1.1111; multiplying would not.
        let scaled = if "num".contains(suffix) && !suffix.is_empty() {
            number / scale
        } else {
            number * scale
        };
        return Some(scaled).filter(|value| value.is_finite());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_number_with_a_suffix() {
        let cases = [
            ("1111100u", Some(1.1111)),
            ("500m", Some(0.5)),
            ("3n", Some(3e-9)),
            ("2k", Some(2000.0)),
            ("1Ki", Some(1024.0)),
            ("2E", Some(2e18)),
            ("12e3", Some(12_000.0)),
            ("12E3", Some(12_000.0)),
            ("-1.5", Some(-1.5)),
            ("+7", Some(7.0)),
            ("", None),
            ("m", None),
            ("Ki", None),
            ("NaN", None),
            ("inf", None),
            ("1e999", None),
            ("1 k", None),
            ("1kk", None),
            ("0x10", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}
