//! Every script in `tests/scenarios`, one test each.

#![expect(clippy::panic, reason = "how a script fails its test")]

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
    ab: [
        fails,
        gate,
        gateway_api,
        istio,
        iterations_lowered,
        kubernetes,
    ],
    alerts: [
        error,
        gates,
        info,
        skip_analysis,
        warn,
    ],
    blue_green: [
        fails,
        fails_while_waiting,
        gate,
        gate_of_one_iteration,
        kubernetes,
        mirror,
        weights_on_kubernetes,
    ],
    conditions: [
        bad_release,
        deletion,
        good_release,
        new_revision_while_finalising,
        suspended,
        trouble,
    ],
    daemon_set: [
        bad_release,
        config_change,
        deleted,
        deleted_and_left,
        good_release,
        idle_target_runs,
        never_ready,
        operator_restarts,
        parked_in_mid_rollout,
        primary_comes_back,
        primary_misses_a_pod,
        setup,
    ],
    deletion: [
        autoscaler,
        left_failed,
        left_finalising,
        left_held,
        left_initialized,
        left_initializing,
        left_progressing,
        left_promoting,
        left_promotion_failed,
        left_service,
        left_succeeded,
        left_waiting,
        left_waiting_promotion,
        revert_switched,
        reverted_failed,
        reverted_finalising,
        reverted_held,
        reverted_initialized,
        reverted_initializing,
        reverted_progressing,
        reverted_promoting,
        reverted_promotion_failed,
        reverted_service,
        reverted_succeeded,
        reverted_virtual_service,
        reverted_waiting,
        reverted_waiting_promotion,
        suspended,
        target_gone,
        target_never_ready,
        while_operator_is_down,
    ],
    golden: [
        blue_green,
        skip_analysis,
        weighted_with_every_hook,
    ],
    hooks: [
        confirm_promotion,
        confirm_promotion_deadline,
        confirm_promotion_fails,
        confirm_promotion_hangs,
        confirm_promotion_new_revision,
        confirm_rollout,
        confirm_rollout_after_a_rest,
        confirm_rollout_called_back,
        confirm_rollout_hangs,
        confirm_rollout_reverted,
        confirm_rollout_two,
        confirm_traffic_increase,
        event,
        event_hangs,
        post_rollout,
        post_rollout_after_a_crash,
        post_rollout_hangs,
        post_rollout_of_a_failure,
        pre_rollout,
        pre_rollout_fails,
        pre_rollout_hangs,
        restart_confirm_promotion,
        restart_confirm_rollout,
        restart_elsewhere,
        restart_post_rollout,
        restart_post_rollout_of_a_failure,
        restart_pre_rollout,
        restart_rollback,
        restart_rollout,
        restart_traffic_increase,
        retries,
        rollback,
        rollback_hangs,
        rollback_while_waiting,
        rollout,
    ],
    keda: [
        bad_release,
        deleted,
        good_release,
        not_installed,
        paused_in_mid_rollout,
        primary_scaled_object_comes_back,
        setup,
    ],
    manual: [
        added_late,
        added_while_idle,
        added_while_waiting_for_promotion,
        applied_again,
        before_traffic,
        between_listed_steps,
        between_steps,
        beyond_max_weight,
        called_back_while_held,
        canary_unready_while_held,
        cannot_be_removed,
        cannot_be_removed_at_rest,
        checks_while_held,
        config_change_while_held,
        edited_while_held,
        gates_while_held,
        hold_while_promoting,
        mark_is_lost,
        metrics,
        mirror,
        mirror_before_traffic,
        new_revision_while_held,
        no_weights,
        on_istio,
        on_kubernetes,
        operator_restarts,
        primary_unready_while_held,
        removed_while_held,
        resume_before_held,
        resume_for_a_revision_that_is_gone,
        resume_of_nothing,
        resume_while_finalising,
        resume_while_gated,
        resume_while_promoting,
        session_affinity,
        skip_analysis,
        strategy_changed_while_held,
        suspended,
        threshold_while_held,
    ],
    promotion: [
        canary_lost,
        deadline,
        finalising_stuck,
        new_revision,
        operator_restarts,
        primary_stuck,
        rescue,
        rescue_by_revert,
        rescue_fails,
        slow_primary,
        stuck_on_kubernetes,
    ],
    service: [
        bad_release,
        copies_come_back,
        deleted,
        good_release,
        primary_comes_back,
        setup,
        without_a_gateway,
    ],
    setup: [
        autoscaler,
        edited_route,
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
        autoscaler_deleted,
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
        metrics,
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
        primary_dies,
        primary_scales,
        primary_stuck,
        ready_threshold,
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
