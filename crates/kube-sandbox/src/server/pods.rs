//! Pod subresources: binding and log.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Answer, Call, Content, Server,
    options::WriteOptions,
    rules::WriteTo,
    write::{Ownership, Write},
};
use crate::{
    failure::{Failure, FieldError, Outcome},
    kubelet,
    store::{ObjectKey, Transaction},
};

// === impl Server ===

impl Server {
    /// `POST pods/NAME/binding`: the request of a scheduler.
    pub(super) fn bind_pod(&self, call: &Call<'_>) -> Outcome<Answer> {
        let (binding, _) = call.body_object()?;
        self.bind_to(call.namespace(), &call.request.info.name, &binding)
    }

    /// `POST bindings`, the same by its deprecated path.
    pub(super) fn bind(&self, namespace: &str, binding: &Value) -> Outcome<Answer> {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        self.bind_to(namespace, name, binding)
    }

    fn bind_to(&self, namespace: &str, name: &str, binding: &Value) -> Outcome<Answer> {
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            // Found below the API machinery, which gives it no reason.
            let error = FieldError::required("target.name", "");
            return Err(Failure::unclassified(error.to_string()));
        }
        let tx = self.store.begin();
        let (def, old) = self.pod(&tx, namespace, name)?;
        let mut pod = old.value();
        let conflict = |why: String| Err(Failure::conflict("", "pods/binding", name, &why));
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if let Some(bound) = pod["spec"]["nodeName"].as_str().filter(|text| !text.is_empty()) {
            return conflict(format!("pod {name} is already assigned to node {bound:?}"));
        }
        pod["spec"]["nodeName"] = node.into();
        set_condition(&mut pod, "PodScheduled", "True", &self.now_text());
        let options = WriteOptions { field_manager: "kube-scheduler".into(), ..Default::default() };
        let write = Write {
            def: &def,
            options: &options,
            to: WriteTo::Binding,
            ownership: Ownership::Settled,
        };
        self.update_object(&tx, &write, &old, pod)?;
        Ok(Answer::success(201, &Value::Null))
    }

    /// `GET pods/NAME/log`: the generated lines of a simulated container.
    pub(super) fn pod_log(&self, call: &Call<'_>) -> Outcome<Answer> {
        let pod = self.stored(call)?.value();
        let query = &call.request.query;
        let name = &call.request.info.name;
        let container = log_container(&pod, query.get("container"), name)?;
        let waiting = container_waiting(&pod, &container);
        if let Some(reason) = waiting {
            return Err(Failure::bad_request(format!(
                "container {container:?} in pod {name:?} is waiting to start: {reason}"
            )));
        }
        let now = self.clock.now();
        let previous = query.flag("previous");
        let mut lines = kubelet::log_entries(&pod, &container, previous, now);
        if previous && lines.is_empty() {
            return Err(Failure::bad_request(format!(
                "previous terminated container {container:?} in pod {name:?} not found"
            )));
        }
        if let Ok(seconds) = query.get("sinceSeconds").parse::<i64>() {
            let from =
                now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
            lines.retain(|(at, _)| *at >= from);
        }
        if let Ok(tail) = query.get("tailLines").parse::<usize>() {
            lines.drain(..lines.len().saturating_sub(tail));
        }
        let timestamps = query.flag("timestamps");
        let text = lines.iter().map(|(at, line)| {
            if timestamps { format!("{at} {line}\n") } else { format!("{line}\n") }
        });
        Ok(Answer::new(200, Content::Text(text.collect())))
    }

    pub(super) fn pod(
        &self,
        tx: &Transaction<'_>,
        namespace: &str,
        name: &str,
    ) -> Outcome<(std::sync::Arc<crate::registry::ResourceDef>, std::sync::Arc<crate::store::Stored>)>
    {
        let def = self.registry().find("", "v1", "pods");
        let def = def.ok_or_else(|| Failure::internal("pods are always served"))?;
        let found = tx.get(&def.table, &ObjectKey::new(namespace, name));
        Ok((def, found.ok_or_else(|| Failure::not_found("", "pods", name))?))
    }
}

fn set_condition(pod: &mut Value, kind: &str, status: &str, now: &str) {
    let fresh = json!({ "type": kind, "status": status, "lastProbeTime": null,
        "lastTransitionTime": now });
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = pod["status"]["conditions"].as_array_mut() else { return };
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(fresh);
}

fn log_container(pod: &Value, asked: &str, name: &str) -> Outcome<String> {
    let list = |key: &str| {
        let containers = pod["spec"][key].as_array().into_iter().flatten();
        containers.filter_map(|c| c["name"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (containers, init) = (list("containers"), list("initContainers"));
    if !asked.is_empty() {
        if containers.iter().chain(&init).any(|container| container == asked) {
            return Ok(asked.to_owned());
        }
        let why = format!("container {asked} is not valid for pod {name}");
        return Err(Failure::bad_request(why));
    }
    match containers.as_slice() {
        [only] => Ok(only.clone()),
        many => Err(Failure::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            many.join(" ")
        ))),
    }
}

fn container_waiting(pod: &Value, container: &str) -> Option<String> {
    let statuses = ["containerStatuses", "initContainerStatuses"];
    let statuses = statuses.iter().filter_map(|key| pod["status"][key].as_array()).flatten();
    let found = statuses.into_iter().find(|status| status["name"] == container);
    let Some(status) = found else { return Some("ContainerCreating".into()) };
    if !status["lastState"]["terminated"].is_null() {
        return None;
    }
    Some(status["state"]["waiting"]["reason"].as_str()?.to_owned())
}
