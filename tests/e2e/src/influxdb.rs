//! A real `InfluxDB` that answers Flux, with a login.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use http::header::AUTHORIZATION;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{Parts, Process, Web, control_plane::free_ports};

const PATIENCE: Duration = Duration::from_mins(2);
const USER: &str = "tester";
const PASSWORD: &str = "not-a-real-one";
const DATABASE: &str = "shop";

/// A running `InfluxDB` with a database. Dropping it ends it.
#[derive(Debug)]
pub struct InfluxDb {
    process: Process,
    port: u16,
    web: Web,
}

// === impl InfluxDb ===

impl InfluxDb {
    /// The name of the database in Flux.
    pub const BUCKET: &str = "shop/autogen";

    /// Data and log are in `folder`.
    pub async fn start(parts: &Parts, folder: &Path) -> Result<Self> {
        let [port, backup] = free_ports()?;
        let root = folder.join("influxdb");
        let place = root.display();
        std::fs::create_dir_all(&root)?;
        let text = format!(
            "reporting-disabled = true\n\
             bind-address = \"127.0.0.1:{backup}\"\n\
             [meta]\n\
             dir = \"{place}/meta\"\n\
             [data]\n\
             dir = \"{place}/data\"\n\
             wal-dir = \"{place}/wal\"\n\
             [http]\n\
             bind-address = \"127.0.0.1:{port}\"\n\
             flux-enabled = true\n\
             auth-enabled = true\n\
             log-enabled = false\n\
             [monitor]\n\
             store-enabled = false\n"
        );
        let file = root.join("influxdb.conf");
        std::fs::write(&file, text)?;
        let arguments = ["-config".to_owned(), file.display().to_string()];
        let program = parts.program("influxdb", "influxd")?;
        let process = Process::start("influxdb", &program, &arguments, folder)?;
        let influxdb = Self { process, port, web: Web::default() };
        let ping = format!("{}/ping", influxdb.url());
        let answers = async || Ok(influxdb.web.get(&ping).await?.status == 204);
        influxdb.process.ready(PATIENCE, answers).await?;
        // The first user is created without a login.
        let user = format!("CREATE USER {USER} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES");
        influxdb.command(&user).await?;
        influxdb.command(&format!("CREATE DATABASE {DATABASE}")).await?;
        Ok(influxdb)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The token of a client.
    pub fn token(&self) -> String {
        format!("{USER}:{PASSWORD}")
    }

    /// Adds a sample of now to a series: a measurement with its tags, and a field of it.
    pub async fn push(&self, series: &str, field: &str, value: f64) -> Result<()> {
        let url = format!("{}/write?db={DATABASE}", self.url());
        self.post(&url, format!("{series} {field}={value}")).await
    }

    async fn command(&self, command: &str) -> Result<()> {
        let command = utf8_percent_encode(command, NON_ALPHANUMERIC);
        let url = format!("{}/query?q={command}", self.url());
        self.post(&url, String::new()).await
    }

    async fn post(&self, url: &str, body: String) -> Result<()> {
        let token = format!("Token {}", self.token());
        let answer = self.web.post(url, &[(AUTHORIZATION.as_str(), &token)], body).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let is_fine = (200..300).contains(&answer.status) && !text.contains("\"error\"");
        ensure!(is_fine, "InfluxDB answered {}: {text}", answer.status);
        Ok(())
    }
}
