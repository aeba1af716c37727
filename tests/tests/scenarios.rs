//! Every script in `tests/scenarios`, one test each.

use std::{collections::BTreeSet, fs, path::PathBuf};

use tidegate_tests::scenario;

macro_rules! scenarios {
    ($($folder:ident: [$($name:ident),* $(,)?]),* $(,)?) => {
        $(mod $folder {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::run(stringify!($folder), stringify!($name)).await;
                }
            )*
        })*

        const LISTED: &[&str] = &[$($(concat!(stringify!($folder), "/", stringify!($name))),*),*];
    };
}

scenarios! {
    golden: [
        blue_green,
        skip_analysis,
        weighted_with_every_hook,
    ],
    setup: [
        autoscaler,
        existing_service,
        existing_virtual_service,
        gateway_api,
        gateway_api_v1beta1,
        idle_target_scaled_up,
        istio,
        kubernetes,
        metrics_unavailable,
        missing_autoscaler,
        no_target,
        objects_come_back,
        operator_restarts,
        primary_comes_back,
        refused_plan,
        release_while_operator_is_down,
        skip_analysis,
        slow_primary,
        stuck_primary,
    ],
    weighted: [
        autoscaler,
        breach_and_recovery,
        canary_dies,
        canary_never_ready,
        canary_slow,
        config_change,
        edited_plan,
        edited_route,
        failed_is_not_retried,
        failed_then_reverted,
        gateway_refuses,
        good_release,
        good_release_gateway_api_v1beta1,
        good_release_istio,
        metrics_server_down,
        mirror_fails,
        mirror_gateway_api,
        mirror_istio,
        missing_config,
        new_revision,
        no_data,
        operator_restarts,
        own_metrics,
        past_max_weight,
        primary_scales,
        revert,
        scaled_to_zero,
        secret_change,
        session_affinity_gateway_api,
        session_affinity_istio,
        session_affinity_rollback,
        skip_in_mid_rollout,
        step_weight_promotion,
        step_weights,
        suspend,
        suspended_release,
        target_deleted,
        threshold,
    ],
}

async fn run(folder: &str, name: &str) {
    let path = scripts().join(folder).join(format!("{name}.txt"));
    if let Err(why) = scenario::check(&path).await {
        panic!("{why}");
    }
}

fn scripts() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[test]
fn every_script_is_run() {
    let mut found = BTreeSet::new();
    for folder in fs::read_dir(scripts()).unwrap().flatten().filter(|it| it.path().is_dir()) {
        for script in fs::read_dir(folder.path()).unwrap().flatten() {
            let name = script.path().with_extension("");
            let name = name.strip_prefix(scripts()).unwrap();
            found.insert(name.to_string_lossy().into_owned());
        }
    }
    let listed = LISTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "scripts in the folder, and those listed in this file");
}
