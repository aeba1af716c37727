//! A cluster for kubectl, until Ctrl-C.
//!
//! ```text
//! cargo run -p kube-sandbox --example kubectl
//! kubectl --server http://127.0.0.1:8001 create deployment web --image=web:1 --replicas=3
//! kubectl --server http://127.0.0.1:8001 get pods --watch
//! ```

#![expect(clippy::print_stdout, reason = "it says how to reach it")]

use kube_sandbox::{Sandbox, Settings};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    // The default has a real clock: pods take a moment to start, as they do elsewhere.
    let sandbox = Sandbox::new(Settings::default().nodes(3));
    sandbox.run();
    let listener = sandbox.listen(([127, 0, 0, 1], 8001).into()).await?;
    let kubectl = format!("kubectl --server http://{}", listener.address);
    println!("A cluster of three nodes. Try:");
    println!("  {kubectl} get nodes");
    println!("  {kubectl} create deployment web --image=web:1 --replicas=3");
    println!("  {kubectl} set image deployment/web web=web:2-slow-start-10s");
    println!("  {kubectl} rollout status deployment/web");
    println!("Ctrl-C ends it, and everything in it.");
    tokio::signal::ctrl_c().await?;
    listener.stop().await;
    Ok(())
}
