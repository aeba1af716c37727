//! The canonical form of a pod template, for comparing templates that are written differently.
//!
//! Other controllers stored templates after decoding and encoding them: amounts in their shortest form, empty
//! members added. A template that means the same as such a revision is that revision. Only differences known
//! to have no effect are ignored; `false` and 0 may well have one.

use super::Json;

/// Members whose values are amounts, such as `500m` or `1Gi`.
const AMOUNTS: [&str; 2] = ["limits", "requests"];
/// Members that are an amount.
const AMOUNT: [&str; 2] = ["sizeLimit", "divisor"];
/// Members without effect when they are empty.
const OPTIONAL: [&str; 4] = ["metadata", "resources", "limits", "requests"];
/// Powers of 1000 that small amounts are counted in: nothing is smaller than a billionth.
const SMALLEST: i128 = 1_000_000_000;

/// The template without differences that have no effect.
pub fn canonical_template(template: &Json) -> Json {
    match template {
        Json::Object(members) => {
            let kept = members.iter().filter(|(name, _)| *name != "$patch");
            let kept = kept.filter_map(|(name, value)| {
                let value = member(name, value)?;
                Some((name.clone(), value))
            });
            Json::Object(kept.collect())
        }
        Json::List(items) => Json::List(items.iter().map(canonical_template).collect()),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::Text(_) => {
            template.clone()
        }
    }
}

fn member(name: &str, value: &Json) -> Option<Json> {
    let value = match value {
        Json::Null => return None,
        Json::Object(amounts) if AMOUNTS.contains(&name) => Json::Object(
            amounts.iter().map(|(name, value)| (name.clone(), amount(value))).collect(),
        ),
        Json::Bool(_)
        | Json::Int(_)
        | Json::Float(_)
        | Json::Text(_)
        | Json::List(_)
        | Json::Object(_) => {
            if AMOUNT.contains(&name) {
                amount(value)
            } else {
                canonical_template(value)
            }
        }
    };
    let is_empty = matches!(&value, Json::Object(members) if members.is_empty());
    // Of all amounts this one is written although it was not set.
    let is_default = name == "divisor" && value == Json::Int(0);
    let has_no_effect = is_default || is_empty && OPTIONAL.contains(&name);
    (!has_no_effect).then_some(value)
}

/// An amount in billionths; a text that is no amount stays as it is.
fn amount(value: &Json) -> Json {
    let text = match value {
        Json::Text(text) => text.clone(),
        Json::Int(number) => number.to_string(),
        Json::Null | Json::Bool(_) | Json::Float(_) | Json::List(_) | Json::Object(_) => {
            return value.clone();
        }
    };
    billionths(&text).map_or_else(|| value.clone(), Json::Int)
}

fn billionths(text: &str) -> Option<i128> {
    let end = text.find(|it: char| !(it.is_ascii_digit() || "+-.".contains(it)));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => (-1, whole),
        None => (1, whole.strip_prefix('+').unwrap_or(whole)),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let factor = factor(suffix)?;
    let places = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(factor)?;
    (scaled % places == 0).then_some(sign * scaled / places)
}

/// Billionths in one of this unit.
fn factor(suffix: &str) -> Option<i128> {
    let power = |base: i128, exponent: u32| base.checked_pow(exponent)?.checked_mul(SMALLEST);
    match suffix {
        "n" => Some(1),
        "u" => Some(1_000),
        "m" => Some(1_000_000),
        "" => Some(SMALLEST),
        "k" => power(1_000, 1),
        "M" => power(1_000, 2),
        "G" => power(1_000, 3),
        "T" => power(1_000, 4),
        "P" => power(1_000, 5),
        "E" => power(1_000, 6),
        "Ki" => power(1_024, 1),
        "Mi" => power(1_024, 2),
        "Gi" => power(1_024, 3),
        "Ti" => power(1_024, 4),
        "Pi" => power(1_024, 5),
        "Ei" => power(1_024, 6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            power(10, exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_the_same_in_all_its_forms() {
        let same = [
            ["1000m", "1", "1.0", "1e0"],
            ["500m", "0.5", ".5", "500000u"],
            ["1Gi", "1024Mi", "1048576Ki", "1073741824"],
            ["1.5Gi", "1536Mi", "1610612736", "1536.0Mi"],
            ["2k", "2000", "2e3", "2E+3"],
        ];
        for forms in same {
            let amounts = forms.map(billionths);
            assert!(
                amounts[0].is_some() && amounts.iter().all(|it| *it == amounts[0]),
                "{forms:?}"
            );
        }
        assert_ne!(billionths("1G"), billionths("1Gi"));
        for text in ["", ".", "much", "1 Gi", "1e", "0.1n", "9999999999999999999999999999999E"] {
            assert_eq!(billionths(text), None, "{text}");
        }
    }

    fn container(more: &[(&str, Json)]) -> Json {
        let mut container = Json::object([("name", Json::text("a")), ("image", Json::text("b"))]);
        if let Json::Object(members) = &mut container {
            members.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        Json::object([("spec", Json::object([("containers", Json::List(vec![container]))]))])
    }

    fn limits(cpu: Json) -> Json {
        container(&[("resources", Json::object([("limits", Json::object([("cpu", cpu)]))]))])
    }

    #[test]
    fn empty_members_make_no_difference_and_others_do() {
        let same = [
            (container(&[]), container(&[("resources", Json::object([]))])),
            (container(&[]), container(&[("livenessProbe", Json::Null)])),
            (limits(Json::text("1000m")), limits(Json::Int(1))),
        ];
        for (one, other) in same {
            assert_eq!(canonical_template(&one), canonical_template(&other));
        }
        let other = [
            (limits(Json::text("1")), limits(Json::text("2"))),
            (container(&[]), container(&[("tty", Json::Bool(false))])),
            (container(&[]), container(&[("emptyDir", Json::object([]))])),
            (container(&[("a", Json::text("1000m"))]), container(&[("a", Json::text("1"))])),
        ];
        for (one, other) in other {
            assert_ne!(canonical_template(&one), canonical_template(&other));
        }
    }
}
