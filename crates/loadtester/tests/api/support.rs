//! A load tester to ask, and servers for it to ask.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate-loadtester");

/// A running load tester. Killed when dropped.
pub(crate) struct Tester {
    child: Child,
    pub(crate) port: u16,
    log: Arc<Mutex<String>>,
}

/// Status, head and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A folder of a test's own. Removed when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

/// A server that answers JSON by method and path, and records the requests.
pub(crate) struct Fake {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

/// How long anything may take on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

// === impl Tester ===

impl Tester {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with(flags, None)
    }

    /// With programs of a folder before all others.
    pub(crate) fn start_with(flags: &[&str], programs: Option<&Path>) -> Self {
        let path = std::env::var("PATH").unwrap();
        let path = programs.map_or(path.clone(), |it| format!("{}:{path}", it.display()));
        let mut child = Command::new(PROGRAM)
            .arg("-port=0")
            .args(flags)
            .env("PATH", path)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::<Mutex<String>>::default();
        let mut seen = String::new();
        let port = loop {
            let Some(Ok(line)) = lines.next() else { panic!("it does not start:\n{seen}") };
            seen += &line;
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["msg"] == "Starting load tester" {
                break u16::try_from(line["port"].as_u64().unwrap()).unwrap();
            }
        };
        let logging = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                logging.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        Self { child, port, log }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], &body.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut stream = self.begin(method, path, headers, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// Sends a request and does not wait for the answer.
    pub(crate) fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let named = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let (named, length) = (named.collect::<String>(), body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: tester\r\nConnection: close\r\n{named}\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a body may not read it.
        let _refused = stream.write_all(body.as_bytes());
        stream
    }

    /// A task of a canary `podinfo` in `test`.
    pub(crate) fn task(&self, metadata: &Value) -> Answer {
        self.post("/", &task(metadata))
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn until_logged(&self, text: &str) {
        until(&format!("{text} in the log"), || self.has_logged(text));
    }

    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// The value of a series.
    pub(crate) fn metric(&self, series: &str) -> Option<String> {
        let page = self.get("/metrics").body;
        page.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned))
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// The exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        until("its end", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code()
    }
}

impl Drop for Tester {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

pub(crate) fn task(metadata: &Value) -> Value {
    let mut payload = json!({ "name": "podinfo", "namespace": "test", "phase": "Progressing" });
    payload["metadata"] = metadata.clone();
    payload
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

// === impl Folder ===

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("loadtester-{name}-{}", std::process::id()));
        let _not_there = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.file(name)
    }

    pub(crate) fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.0.join(name)).unwrap_or_default().lines().count()
    }

    /// A program that prints its arguments, each in brackets, and ends with `code`.
    pub(crate) fn program(&self, name: &str, code: u8) {
        use std::os::unix::fs::PermissionsExt as _;
        let text = format!("#!/bin/sh\nprintf '[%s]' \"$@\"\nexit {code}\n");
        self.write(name, &text);
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _not_there = fs::remove_dir_all(&self.0);
    }
}

// === impl Fake ===

impl Fake {
    /// `answers` has, for the beginning of a request line, the bodies of answers in turn; the last one
    /// is given again.
    pub(crate) fn start(answers: &[(&str, &[&str])]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let answers: Vec<(String, Vec<String>)> = answers
            .iter()
            .map(|(line, bodies)| {
                ((*line).to_owned(), bodies.iter().map(|it| (*it).to_owned()).collect())
            })
            .collect();
        let remembering = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let _gone = converse(&stream.unwrap(), &answers, &remembering);
            }
        });
        Self { port, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request and its answer.
fn converse(
    mut stream: &TcpStream,
    answers: &[(String, Vec<String>)],
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
    }
    let lower = request.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    request += &String::from_utf8_lossy(&body);
    let (before, answer) = {
        let mut asked = asked.lock().unwrap();
        let found = answers.iter().find(|(line, _)| request.starts_with(line));
        let line = found.map_or("", |(line, _)| line);
        let before = asked.iter().filter(|it| it.starts_with(line)).count();
        asked.push(request.clone());
        (before, found)
    };
    let (status, body) = match answer {
        Some((_, bodies)) => ("200 OK", bodies.get(before).or(bodies.last()).unwrap().as_str()),
        None => ("404 Not Found", "{}"),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}
