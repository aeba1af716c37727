//! Arguments of hooks: merges declared and given ones, and fills them into texts.

/// An argument a template declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its value; without one, the workload that uses the template must give it.
    pub value: Option<String>,
}

/// An argument with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The arguments of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Those the template declares, in its order, and then those that describe the pod.
    pub arguments: Vec<Argument>,
    /// Names of those that were given and not declared.
    pub dropped: Vec<String>,
}

/// Why arguments cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// No value was given.
    #[error("args.{0} was not resolved")]
    Unresolved(String),
    /// A text names an unknown argument.
    #[error("failed to resolve {{{{{tag}}}}} at character {at}")]
    Unknown {
        /// The text between the braces.
        tag: String,
        /// Where it begins.
        at: usize,
    },
    /// Braces that are not closed.
    #[error("{{{{ at character {0} is not closed")]
    Unclosed(usize),
    /// The text would become too long.
    #[error("the text with its arguments is longer than {0} bytes")]
    TooLong(usize),
}

/// Longest text after substitution: a URL or a query, with room to spare.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Names that describe a pod; each may have an index.
const OF_POD: [&str; 6] =
    ["PodName", "PodNamespace", "PodIP", "PodContainer", "ModifiedContainer", "HostIP"];

/// Merges the arguments that a template declares with those that are given.
pub fn merge(declared: &[Declared], given: &[Argument]) -> Result<Merged, ArgumentError> {
    let mut merged = Merged::default();
    for argument in declared {
        let last = given.iter().rev().find(|other| other.name == argument.name);
        let value = last.map(|other| other.value.clone()).or_else(|| argument.value.clone());
        let value = value.ok_or_else(|| ArgumentError::Unresolved(argument.name.clone()))?;
        merged.arguments.push(Argument { name: argument.name.clone(), value });
    }
    for argument in given {
        let is_known = merged.arguments.iter().any(|other| other.name == argument.name);
        if is_known {
            continue;
        }
        if describes_a_pod(&argument.name) {
            merged.arguments.push(argument.clone());
        } else if !merged.dropped.contains(&argument.name) {
            merged.dropped.push(argument.name.clone());
        }
    }
    Ok(merged)
}

/// Fills in `{{ args.NAME }}`. Values are not filled in again.
pub fn substitute(text: &str, arguments: &[Argument]) -> Result<String, ArgumentError> {
    let mut out = String::new();
    let mut rest = text;
    let mut at = 0;
    while let Some((before, after)) = rest.split_once("{{") {
        let start = at + before.chars().count();
        let (tag, left) = after.split_once("}}").ok_or(ArgumentError::Unclosed(start))?;
        out.push_str(before);
        out.push_str(
            value_of(tag, arguments)
                .ok_or_else(|| ArgumentError::Unknown { tag: tag.to_owned(), at: start })?,
        );
        if out.len() > TEXT_BYTES_MAX {
            return Err(ArgumentError::TooLong(TEXT_BYTES_MAX));
        }
        at = start + 4 + tag.chars().count();
        rest = left;
    }
    out.push_str(rest);
    Ok(out)
}

/// The arguments that a text names.
pub fn asked_for(text: &str) -> Result<Vec<String>, ArgumentError> {
    let mut names = Vec::new();
    let mut rest = text;
    let mut at = 0;
    while let Some((before, after)) = rest.split_once("{{") {
        let start = at + before.chars().count();
        let (tag, left) = after.split_once("}}").ok_or(ArgumentError::Unclosed(start))?;
        let unknown = || ArgumentError::Unknown { tag: tag.to_owned(), at: start };
        let name = tag.trim().strip_prefix("args.").ok_or_else(unknown)?;
        names.push(name.to_owned());
        at = start + 4 + tag.chars().count();
        rest = left;
    }
    Ok(names)
}

fn value_of<'a>(tag: &str, arguments: &'a [Argument]) -> Option<&'a str> {
    let name = tag.trim().strip_prefix("args.")?;
    let found = arguments.iter().find(|argument| argument.name == name)?;
    Some(&found.value)
}

/// Whether an argument of this name describes a pod: a run for one is given it without a declaration.
pub fn describes_a_pod(name: &str) -> bool {
    OF_POD.iter().any(|known| {
        let Some(index) = name.strip_prefix(known) else { return false };
        let inside = index.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        index.is_empty() || inside.is_some_and(is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, value: Option<&str>) -> Declared {
        Declared { name: name.to_owned(), value: value.map(ToOwned::to_owned) }
    }

    fn given(name: &str, value: &str) -> Argument {
        Argument { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn given_values_override_those_of_the_template_in_its_order() {
        let template = [declared("b", Some("1")), declared("a", None)];
        let merged = merge(&template, &[given("a", "x"), given("b", "2")]).unwrap();
        assert_eq!(merged.arguments, [given("b", "2"), given("a", "x")]);
    }

    #[test]
    fn an_argument_without_a_value_is_an_error_that_names_it() {
        let error = merge(&[declared("room", None)], &[]).unwrap_err();
        assert_eq!(error.to_string(), "args.room was not resolved");
    }

    // Game workloads, mistake 37: docs/mistakes.md.
    #[test]
    fn only_exact_names_of_a_pod_pass_undeclared_and_the_others_are_told() {
        let all = [
            given("PodName", "p"),
            given("PodContainer[0]", "main"),
            given("MyPodIP", "1"),
            given("PodIPs", "1"),
            given("PodContainer[x]", "1"),
            given("level", "3"),
        ];
        let merged = merge(&[], &all).unwrap();
        assert_eq!(merged.arguments, [given("PodName", "p"), given("PodContainer[0]", "main")]);
        assert_eq!(merged.dropped, ["MyPodIP", "PodIPs", "PodContainer[x]", "level"]);
    }

    #[test]
    fn tags_are_filled_in_with_and_without_blanks() {
        let args = [given("PodIP", "10.0.0.1"), given("tricky", "{{ args.PodIP }}")];
        let fill = |text: &str| substitute(text, &args);
        assert_eq!(
            fill("http://{{args.PodIP}}/{{  args.PodIP }}"),
            Ok("http://10.0.0.1/10.0.0.1".to_owned())
        );
        assert_eq!(fill("{{ args.tricky }}"), Ok("{{ args.PodIP }}".to_owned()), "only once");
        assert_eq!(fill("no } tags {"), Ok("no } tags {".to_owned()));
    }

    #[test]
    fn an_unknown_or_open_tag_is_an_error_with_its_place() {
        let unknown = substitute("é/{{ args.no }}", &[]).unwrap_err();
        assert_eq!(unknown.to_string(), "failed to resolve {{ args.no }} at character 2");
        assert_eq!(substitute("ab{{ args.x", &[]), Err(ArgumentError::Unclosed(2)));
        let other = substitute("{{ env.HOME }}", &[]).unwrap_err();
        assert!(matches!(other, ArgumentError::Unknown { .. }));
    }

    #[test]
    fn arguments_that_a_text_asks_for_are_known_before_it_is_used() {
        let asked = asked_for("http://{{ args.PodIP }}/{{args.room}}");
        assert_eq!(asked, Ok(vec!["PodIP".to_owned(), "room".to_owned()]));
        assert!(asked_for("{{ room }}").is_err());
        assert_eq!(asked_for("a{{"), Err(ArgumentError::Unclosed(1)));
    }

    #[test]
    fn a_text_that_grows_without_bound_is_refused() {
        let args = [given("big", &"x".repeat(40_000))];
        let error = substitute("{{args.big}}{{args.big}}", &args).unwrap_err();
        assert!(matches!(error, ArgumentError::TooLong(_)));
    }
}
