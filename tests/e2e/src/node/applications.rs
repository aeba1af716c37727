//! The sample application in every pod that runs, on the pod's own address and ports.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use kube_sandbox::{
    dataplane::{Meter, Pod, PodServer, app::App},
    random::Random,
};
use serde_json::Value;

/// Applications by their pod's uid.
#[derive(Debug)]
pub(super) struct Applications {
    running: BTreeMap<String, Application>,
    meter: Arc<Meter>,
    random: Random,
}

#[derive(Debug)]
struct Application {
    app: App,
    /// One a port.
    _servers: Vec<PodServer>,
}

// === impl Applications ===

impl Applications {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        Self { running: BTreeMap::new(), meter, random: Random::seeded(1) }
    }

    /// Starts or stops the application of a pod, by its status. When this returns a running pod also
    /// listens, so its status may be published.
    pub(super) async fn follow(&mut self, object: &Value) -> io::Result<()> {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let pod = Pod::read(object).map(|(_, pod)| pod).filter(|_| has_running_container(object));
        let Some(pod) = pod else {
            self.running.remove(uid);
            return Ok(());
        };
        if self.running.get(uid).is_some_and(|running| running.app == pod.app) {
            return Ok(());
        }
        // Another version of it needs the ports of the former one.
        self.running.remove(uid);
        let (app, pod) = (pod.app.clone(), Arc::new(pod));
        let mut servers = Vec::new();
        for address in addresses(object) {
            let (meter, random) = (Arc::clone(&self.meter), self.random.fork());
            servers.push(PodServer::start(address, Arc::clone(&pod), meter, random).await?);
        }
        self.running.insert(uid.to_owned(), Application { app, _servers: servers });
        Ok(())
    }

    pub(super) fn forget(&mut self, object: &Value) {
        self.running.remove(object["metadata"]["uid"].as_str().unwrap_or_default());
    }
}

fn has_running_container(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    statuses.into_iter().flatten().any(|status| status["state"]["running"].is_object())
}

/// The declared addresses of a pod: every TCP port of its containers.
fn addresses(pod: &Value) -> Vec<SocketAddr> {
    // On the network of its node, whose address does not exist here.
    if pod["spec"]["hostNetwork"] == true {
        return Vec::new();
    }
    let Some(ip) = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else {
        return Vec::new();
    };
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports =
        containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let tcp = ports.filter(|port| port["protocol"].as_str().is_none_or(|name| name == "TCP"));
    let numbers = tcp.filter_map(|port| u16::try_from(port["containerPort"].as_u64()?).ok());
    let mut addresses: Vec<_> = numbers.map(|port| SocketAddr::new(ip, port)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: &str) -> Value {
        let ports = json!([{ "containerPort": 9898 }, { "containerPort": 53, "protocol": "UDP" }]);
        json!({
            "metadata": { "name": "shop-1", "namespace": "test", "uid": "u1" },
            "spec": { "containers": [{ "name": "shop", "image": "shop:2.0.0", "ports": ports }] },
            "status": {
                "phase": "Running", "podIP": "127.0.0.1",
                "containerStatuses": [{ "name": "shop", "state": { state: {} } }],
            },
        })
    }

    #[tokio::test]
    async fn an_application_listens_while_its_container_runs() {
        let free = crate::control_plane::free_ports::<1>().unwrap()[0];
        let with_port = |state: &str| {
            let mut pod = pod(state);
            pod["spec"]["containers"][0]["ports"][0]["containerPort"] = free.into();
            pod
        };
        let url = format!("http://127.0.0.1:{free}/version");
        let web = crate::Web::default();
        let mut applications = Applications::new(Arc::default());
        applications.follow(&with_port("waiting")).await.unwrap();
        assert!(web.get(&url).await.is_err(), "it does not run yet");
        applications.follow(&with_port("running")).await.unwrap();
        let answer = web.get(&url).await.unwrap();
        assert_eq!(answer.json().unwrap(), json!({ "version": "2.0.0" }));
        applications.follow(&with_port("terminated")).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(crate::Web::default().get(&url).await.is_err(), "it has stopped");
    }

    #[test]
    fn only_tcp_ports_of_a_pods_own_network_are_listened_on() {
        let mut pod = pod("running");
        assert_eq!(addresses(&pod), ["127.0.0.1:9898".parse().unwrap()]);
        pod["spec"]["hostNetwork"] = true.into();
        assert_eq!(addresses(&pod), []);
    }
}
