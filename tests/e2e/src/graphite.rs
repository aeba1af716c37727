//! A real Graphite: carbon takes samples, graphite-web answers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{Parts, Process, Web, control_plane::free_ports};

/// Python reads a few hundred files at its start.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running Graphite. Dropping it ends it.
#[derive(Debug)]
pub struct Graphite {
    _carbon: Process,
    _web: Process,
    samples: u16,
    port: u16,
}

// === impl Graphite ===

impl Graphite {
    /// Keeps an hour of samples, one a second. Data and logs are in `folder`.
    pub async fn start(parts: &Parts, folder: &Path) -> Result<Self> {
        let [samples, pickles, cache, port] = free_ports()?;
        let root = folder.join("graphite");
        let file = configure(&root, samples, pickles, cache)?;
        let arguments =
            [format!("--config={}", file.display()), "--nodaemon".to_owned(), "start".to_owned()];
        let program = parts.program("graphite", "carbon")?;
        let carbon = Process::start("carbon", &program, &arguments, folder)?;
        let arguments = [root.display().to_string(), port.to_string(), cache.to_string()];
        let program = parts.program("graphite", "graphite-web")?;
        let web = Process::start("graphite-web", &program, &arguments, folder)?;

        let listens = async || {
            TcpStream::connect(("127.0.0.1", samples)).await?;
            Ok(true)
        };
        carbon.ready(PATIENCE, listens).await?;
        let url = format!("http://127.0.0.1:{port}/render?target=nothing&format=json");
        let answers = async || Ok(Web::default().get(&url).await?.status == 200);
        web.ready(PATIENCE, answers).await?;
        Ok(Self { _carbon: carbon, _web: web, samples, port })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Adds a sample of now to a series.
    pub async fn push(&self, series: &str, value: f64) -> Result<()> {
        let now = jiff::Timestamp::now().as_second();
        let mut stream = TcpStream::connect(("127.0.0.1", self.samples)).await?;
        stream.write_all(format!("{series} {value} {now}\n").as_bytes()).await?;
        stream.shutdown().await.context("carbon did not take the sample")
    }
}

/// Writes the configuration of carbon; the file.
fn configure(root: &Path, samples: u16, pickles: u16, cache: u16) -> Result<PathBuf> {
    let conf = root.join("conf");
    std::fs::create_dir_all(&conf)?;
    std::fs::create_dir_all(root.join("storage/whisper"))?;
    let schemas = "[all]\npattern = .*\nretentions = 1s:1h\n";
    std::fs::write(conf.join("storage-schemas.conf"), schemas)?;
    let place = root.display();
    let text = format!(
        "[cache]\n\
         CONF_DIR = {place}/conf\n\
         STORAGE_DIR = {place}/storage\n\
         LOCAL_DATA_DIR = {place}/storage/whisper\n\
         LOG_DIR = {place}/storage\n\
         PID_DIR = {place}\n\
         LINE_RECEIVER_INTERFACE = 127.0.0.1\n\
         LINE_RECEIVER_PORT = {samples}\n\
         PICKLE_RECEIVER_INTERFACE = 127.0.0.1\n\
         PICKLE_RECEIVER_PORT = {pickles}\n\
         CACHE_QUERY_INTERFACE = 127.0.0.1\n\
         CACHE_QUERY_PORT = {cache}\n\
         ENABLE_TAGS = False\n\
         MAX_CACHE_SIZE = inf\n\
         MAX_CREATES_PER_MINUTE = inf\n\
         MAX_UPDATES_PER_SECOND = inf\n"
    );
    let file = conf.join("carbon.conf");
    std::fs::write(&file, text)?;
    Ok(file)
}
