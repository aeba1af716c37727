//! A real Prometheus that scrapes its targets every second.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::{Parts, Process, Web, control_plane::free_ports};

const PATIENCE: Duration = Duration::from_mins(2);

/// A running Prometheus. Dropping it ends it. Its first scrape comes some five seconds after the start.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    port: u16,
    web: Web,
}

// === impl Prometheus ===

impl Prometheus {
    /// Scrapes `targets`, each a job's name with its host and port. Data and log are in `folder`.
    pub async fn start(parts: &Parts, folder: &Path, targets: &[(&str, String)]) -> Result<Self> {
        let [port] = free_ports()?;
        let jobs = targets.iter().map(
            |(job, target)| json!({ "job_name": job, "static_configs": [{ "targets": [target] }] }),
        );
        let configuration = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s" },
            "scrape_configs": jobs.collect::<Vec<_>>(),
        });
        let file = folder.join("prometheus.yaml");
        std::fs::write(&file, configuration.to_string())?;
        let arguments = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", folder.join("prometheus").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ];
        let program = parts.program("prometheus", "prometheus")?;
        let process = Process::start("prometheus", &program, &arguments, folder)?;
        let prometheus = Self { process, port, web: Web::default() };
        let ready = format!("{}/-/ready", prometheus.url());
        let is_ready = async || Ok(prometheus.web.get(&ready).await?.status == 200);
        prometheus.process.ready(PATIENCE, is_ready).await?;
        Ok(prometheus)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The `data` of an instant query's answer.
    pub async fn query(&self, query: &str) -> Result<Value> {
        let query_text = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let url = format!("{}/api/v1/query?query={query_text}", self.url());
        let mut answer = self.web.get(&url).await?.json()?;
        if answer["status"] != "success" {
            bail!("{query}: {answer}");
        }
        Ok(answer["data"].take())
    }

    /// The one number in a query's answer; `None` if it has none.
    pub async fn number(&self, query: &str) -> Result<Option<f64>> {
        let data = self.query(query).await?;
        let Some(first) = data["result"].get(0) else { return Ok(None) };
        let text = first["value"][1].as_str().context("not a vector")?;
        Ok(Some(text.parse()?))
    }
}
