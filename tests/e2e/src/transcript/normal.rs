//! A line without the values that differ between any two clusters.

use std::sync::LazyLock;

use regex::Regex;

/// Replacements, in order: pattern, placeholder.
static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let table = [
        // Ids, tokens and times first: later patterns would match words in them.
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"eyJ[A-Za-z0-9._-]+", "<token>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "<time>"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"https?://127\.0\.0\.1:\d+", "<server>"),
        (r"pod-template-hash=[bcdf-hj-np-tv-z2-9]+", "pod-template-hash=<hash>"),
        // A ReplicaSet's name, then a pod's.
        (r"-[bcdf-hj-np-tv-z2-9]{6,10}\b", "-<hash>"),
        (r"<hash>-[bcdf-hj-np-tv-z2-9]{5}\b", "<hash>-<drawn>"),
        (r"\b(web|clip|agent|api|db|lone)-[bcdf-hj-np-tv-z2-9]{5}\b", "$1-<drawn>"),
        (r"\b10\.(24[4-7]|96)\.\d+\.\d+(/\d+)?", "<address>"),
        (r"\b(sandbox|node)-([01])\b", "node-$2"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?m?s( \(x\d+ over .*\))?( ago)?\b", "<age>"),
        // To the second.
        (r"\b[1-9]m( \(x\d+ over .*\))?( ago)?\b", "<age>"),
        (r"<invalid>|<unknown>", "<age>"),
        (r#"(resourceVersion: "?|Resource Version: +)\d+"#, "$1<version>"),
        (r#"resourceVersion\\":\\"\d+"#, "resourceVersion <version>"),
        (r"(kube_codegen_)?v1\.\d+\.\d+\S*", "<release>"),
    ];
    let compiled = table.into_iter().map(|(pattern, by)| (Regex::new(pattern).ok(), by));
    compiled.filter_map(|(pattern, by)| Some((pattern?, by))).collect()
});

/// The line for the comparison.
pub(super) fn line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (pattern, by) in PATTERNS.iter() {
        line = pattern.replace_all(&line, *by).into_owned();
    }
    line
}
