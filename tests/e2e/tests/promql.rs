//! The sandbox's `PromQL` returns the numbers of a real Prometheus.

#![expect(clippy::print_stdout, reason = "a comparison is read by people")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Result, ensure};
use http::Method;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use promql::respond;
use serde_json::{Value, json};
use tidegate_api::canary::{Canary, analysis::AnalysisMetric};
use tidegate_e2e::{
    Parts, Prometheus, Web, inside,
    promql::{
        Question, broken, builtin, database, disagreements, exposition, generated, judge, ranked,
        rows,
    },
};
use tidegate_providers::{
    metrics::{Builtin, observer::Observer},
    template::Model,
};

/// The fewest generated queries with a result: a corpus that lost its samples compares nothing.
const ANSWERED_MIN: usize = 900;

const PROVIDERS: [&str; 13] = [
    "istio",
    "appmesh",
    "linkerd",
    "contour",
    "gloo",
    "kuma",
    "knative",
    "osm",
    "nginx",
    "skipper",
    "traefik",
    "apisix",
    "kubernetes",
];

/// Providers whose queries name the owner of the pods.
const BY_KIND: [&str; 4] = ["appmesh", "linkerd", "osm", "kubernetes"];
/// Providers with the mean time, and with the percentile on request.
const OF_MEANS: [&str; 2] = ["nginx", "skipper"];

#[test]
fn the_sandbox_computes_as_a_real_prometheus() {
    inside("the_sandbox_computes_as_a_real_prometheus", async || {
        let parts = Parts::find()?;
        let folder = std::env::temp_dir().join(format!("tidegate-promql-{}", std::process::id()));
        let outcome = compare(&parts, &folder).await;
        // A folder that cannot be removed is in the machine's temporary folder.
        let _ = fs::remove_dir_all(&folder);
        outcome
    });
}

async fn compare(parts: &Parts, folder: &Path) -> Result<()> {
    let rows = rows();
    fs::create_dir_all(folder.join("prometheus"))?;
    let text = folder.join("samples.txt");
    fs::write(&text, exposition(&rows))?;
    let loaded = Command::new(parts.program("prometheus", "promtool")?)
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&text, &folder.join("prometheus")])
        .output()?;
    ensure!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let prometheus = Prometheus::start(parts, folder, &[]).await?;
    let database = database(&rows);
    let own_queries = builtin_queries()?;
    // Ranking queries without ties are compared with our own: no difference is excused.
    let mut questions = builtin(&own_queries);
    questions.extend(ranked());
    let own = questions.len();
    questions.extend(generated());
    questions.extend(broken());
    let mut differences = Vec::new();
    let mut excused: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut answered, mut answered_generated) = (0, 0);
    let mut silent: BTreeSet<&str> = own_queries.iter().map(String::as_str).collect();
    for (number, question) in questions.iter().enumerate() {
        let path = path(question);
        let real = Web::default().get(&format!("{}{path}", prometheus.url())).await?.json()?;
        let ours: Value = serde_json::from_str(
            &respond(&database, Timestamp::now(), &Method::GET, &path, &[]).body,
        )?;
        if real["data"]["result"].get(0).is_some() {
            answered += 1;
            answered_generated += usize::from(number >= own);
            silent.remove(question.query.as_str());
        }
        let (known, unknown) = if number < own {
            (Vec::new(), disagreements(&real, &ours))
        } else {
            judge(&question.query, &real, &ours)
        };
        for row in known {
            excused.entry(row.why).or_insert((0, row.most)).0 += 1;
        }
        if !unknown.is_empty() {
            differences.push(format!("{question:?}\n    {}", unknown.join("\n    ")));
        }
    }
    println!("{}", differences.join("\n"));
    println!("{:>8} queries, {answered} with an answer", questions.len());
    for (why, (count, _)) in &excused {
        println!("{count:>16} {why}");
    }
    println!("{:>8} differences", differences.len());
    ensure!(differences.is_empty(), "{} answers differ", differences.len());
    // Two servers without results agree about nothing.
    let found = answered_generated;
    ensure!(found >= ANSWERED_MIN, "only {found} generated queries found anything");
    ensure!(silent.is_empty(), "no sample answers {silent:#?}");
    excused.retain(|_, (count, most)| count > most);
    ensure!(excused.is_empty(), "excused too often (so often, instead of): {excused:#?}");
    Ok(())
}

fn path(question: &Question) -> String {
    let query = utf8_percent_encode(&question.query, NON_ALPHANUMERIC);
    let start = question.start_s;
    match question.range {
        None => format!("/api/v1/query?query={query}&time={start}"),
        Some((end, step)) => {
            format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={step}")
        }
    }
}

/// The queries of every canary, of each provider; and further ones by kind of target and metric.
fn builtin_queries() -> Result<Vec<String>> {
    let plain = AnalysisMetric::default();
    let percentile = AnalysisMetric {
        template_variables: [("percentile".to_owned(), "99".to_owned())].into(),
        ..AnalysisMetric::default()
    };
    let mut queries = Vec::new();
    for provider in PROVIDERS {
        queries.extend(queries_of(provider, "Deployment", &plain)?);
    }
    for provider in BY_KIND {
        queries.extend(queries_of(provider, "DaemonSet", &plain)?);
    }
    for provider in OF_MEANS {
        queries.extend(queries_of(provider, "Deployment", &percentile)?);
    }
    Ok(queries)
}

fn queries_of(provider: &str, kind: &str, metric: &AnalysisMetric) -> Result<[String; 3]> {
    let canary: Canary = serde_json::from_value(json!({
        "metadata": { "name": "podinfo", "namespace": "test" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": kind, "name": "podinfo" },
            "service": { "port": 80 },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        },
    }))?;
    let plain = Model::of(&canary, metric)?;
    // As the operator finds them: the revision of Knative, the pods of APISIX.
    let model = match provider {
        "knative" => plain.with_route("podinfo-00002")?,
        "apisix" => plain.with_addresses(["10.244.0.9"]),
        _ => plain,
    };
    let observer = Observer::select(provider, None, &canary.spec.target_ref);
    Ok([
        observer.query(Builtin::SuccessRate, &model),
        observer.query(Builtin::Duration, &model),
        observer.total_query(&model),
    ])
}
