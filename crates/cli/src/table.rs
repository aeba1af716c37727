//! Tables of the API server, as text: what `kubectl get` prints.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use serde_json::Value;
use tidegate_sandbox::Sandbox;
use tower::ServiceExt;

/// Asks the sandbox for `path` as a table and lays it out in columns.
pub(crate) async fn fetch(sandbox: &Sandbox, path: &str) -> anyhow::Result<String> {
    let request = Request::get(path)
        .header(header::ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Empty::<Bytes>::new())?;
    let response = sandbox.service().oneshot(request).await.map_err(anyhow::Error::from_boxed)?;
    let body = response.into_body().collect().await.map_err(anyhow::Error::from_boxed)?;
    let table: Value = serde_json::from_slice(&body.to_bytes())?;
    Ok(render(&table))
}

fn render(table: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns: Vec<(usize, String)> = list(&table["columnDefinitions"])
        .iter()
        .enumerate()
        .filter(|(_, column)| column["priority"].as_i64().unwrap_or_default() == 0)
        .map(|(index, column)| (index, column["name"].as_str().unwrap_or_default().to_uppercase()))
        .collect();
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|(_, name)| name.clone()).collect()];
    for row in list(&table["rows"]) {
        let cell = |index: usize| match &row["cells"][index] {
            Value::String(text) => text.clone(),
            Value::Null => "<none>".to_owned(),
            other => other.to_string(),
        };
        rows.push(columns.iter().map(|(index, _)| cell(*index)).collect());
    }
    lay_out(&rows)
}

fn lay_out(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wide_columns_are_left_out_and_the_rest_lined_up() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "IP", "priority": 1},
                {"name": "Ready", "priority": 0},
            ],
            "rows": [{"cells": ["a", "1.2.3.4", "1/1"]}, {"cells": ["long-name", null, 3]}],
        });
        assert_eq!(render(&table), "NAME        READY\na           1/1\nlong-name   3\n");
    }
}
