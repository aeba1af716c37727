//! The cases of metric analysis, alerts and load tester, with their tests.
//!
//! `8.n` are test vectors taken from Flagger; `BET-n` are cases in which Tidegate deliberately differs from
//! it. The tests below fail when an id is missing or a named test does not exist.
//!
//! | id | about | tests |
//! | --- | --- | --- |
//! | 8.1 | rendering, observers | `a_template_is_filled_in`, `a_template_that_cannot_be_filled_in_is_an_error`, `names_of_skipper_and_knative`, `every_providers_built_in_checks_read_the_canarys_own_numbers`, `metrics_are_asked_of_the_revision_that_was_created_last`, `the_observer_follows_the_provider` |
//! | 8.2 | limits | `a_metric_may_have_several_sources_or_none`, `a_success_rate_must_not_be_less`, `any_other_value_must_not_be_more`, `a_duration_must_not_be_more` |
//! | 8.3 prometheus | answers, probe, headers | `one_number_is_read_from_an_answer`, `anything_else_is_no_number`, `prometheus_is_asked_and_probed`, `headers_and_credentials_are_sent_along` |
//! | 8.3 datadog | | `datadog_reads_the_oldest_point`, `datadog_looks_back_over_ten_intervals`, `datadog_is_offline_without_good_keys` |
//! | 8.3 cloudwatch | | `cloudwatch_needs_a_region`, `cloudwatch_reads_the_first_value_of_the_first_result`, `cloudwatch_is_online_if_it_finds_fault_with_the_query_only` |
//! | 8.3 newrelic | | `newrelic_is_asked_over_the_interval`, `newrelic_reads_the_one_result` |
//! | 8.3 graphite | | `every_server_promotes_the_good_and_takes_back_the_bad`, `graphite_reads_the_last_point`, `graphite_is_online_if_it_renders`, `graphite_needs_an_address_that_is_one` |
//! | 8.3 influxdb | | `every_server_promotes_the_good_and_takes_back_the_bad`, `influxdb_reads_the_first_row` |
//! | 8.3 stackdriver | | `stackdriver_reads_the_first_value`, `stackdriver_is_online_if_it_finds_fault_with_the_query_only` |
//! | 8.3 dynatrace | | `dynatrace_reads_the_last_row` |
//! | 8.3 keptn | | `keptn_reads_a_metric_that_is_there`, `keptn_refuses_texts_that_are_no_query`, `keptn_makes_an_analysis_watches_and_removes_it`, `keptn_gives_up_after_ten_seconds_and_tidies_up` |
//! | 8.3 splunk | | `splunk_reads_the_last_value_of_one_series`, `splunk_has_two_hosts_and_either_names_both` |
//! | 8.3 externalmetrics | | `external_queries_are_a_namespace_a_metric_and_a_selector`, `external_metrics_are_quantities` |
//! | 8.4 notifiers | bodies, addresses, severities | `three_services_take_attachments`, `teams_takes_a_card_with_facts`, `google_chat_takes_a_card_with_sections`, `discord_is_reached_where_it_takes_such_messages`, `an_alert_reports_its_severity_and_worse` |
//! | 8.4 load tester | health, tasks, gates, nGrinder, Concord | `health_and_metrics_are_served`, `a_test_that_passes`, `a_test_that_fails`, `commands_run_once_at_a_time`, `gates_open_and_close`, `a_gate_without_a_payload_is_a_bad_request`, `a_task_has_metadata_and_is_cmd_unless_it_says_otherwise`, `a_test_is_cloned_and_watched`, `a_process_that_may_not_be_started_is_refused` |
//! | 8.4 hooks | retries, certificates | `a_hook_that_fails_once_passes_with_a_retry`, `a_certificate_must_be_trusted_and_for_the_host_unless_told_otherwise` |
//! | BET-1 | no open shell | `unsigned_requests_are_turned_away`, `nothing_but_load_is_run_unless_it_is_enabled`, `tasks_are_taken_at_one_place_only`, `a_body_has_a_limit`, `the_load_tester_takes_what_the_operator_signs`, `the_load_tester_refuses_what_was_altered`, `over_http_only_who_has_the_secret_is_let_in` |
//! | BET-2 | the operator's token | `the_operators_token_stays_in_the_cluster` |
//! | BET-3 | files by Concord | `keys_and_servers_are_confined` |
//! | BET-4 | namespaces of callers | `the_pattern_is_for_the_whole_name`, `a_namespace_is_claimed_with_its_own_secret` |
//! | BET-5 | other namespaces | `keptn_looks_into_its_own_namespace_where_it_is_confined`, `it_looks_into_its_own_namespace_where_it_is_confined` |
//! | BET-6 | secrets in logs and specs | `secrets_are_not_logged`, `a_password_may_be_a_file_in_the_folder_for_them`, `no_secret_leaves_the_operator`, `no_secret_is_in_what_the_real_client_traces`, `no_address_or_token_gets_into_what_is_told`, `nothing_secret_is_in_errors_or_debug_output` |
//! | BET-7 | default interval | `a_template_without_an_interval_looks_back_a_minute`, `an_interval_that_is_none_is_refused_before_anything_is_sent` |
//! | BET-8 | nothing but errors | `nothing_but_errors_is_not_silence` |
//! | BET-9 | DaemonSets | `a_daemon_set_is_found_where_kinds_are_told_apart` |
//! | BET-10 | names of services | `every_provider_has_a_success_rate_and_a_duration` |
//! | BET-11 | which sample | `a_metric_with_several_series_is_told_once_a_rollout`, `datadog_can_be_told_to_read_the_newest_complete_point`, `graphite_reads_the_last_point`, `dynatrace_reads_the_last_row` |
//! | BET-12 | no severity | `an_alert_reports_its_severity_and_worse` |
//! | BET-13 | deadline | `a_deadline_that_passes_is_alerted` |
//! | BET-14 | InfluxDB's nothing | `influxdb_reads_the_first_row` |
//! | BET-15 | zeros that are none | `datadog_reads_the_oldest_point`, `dynatrace_reads_the_last_row`, `stackdriver_reads_the_first_value` |
//! | BET-16 | NaN, infinity | `any_other_value_must_not_be_more`, `keptn_reads_a_metric_that_is_there` |
//! | BET-17 | no limit | `doubtful_metrics_are_told_once_a_rollout`, `odd_metrics_are_pointed_out` |
//! | BET-18 | evaluated twice | `doubtful_metrics_are_told_once_a_rollout` |
//! | BET-19 | render errors, scalars | `a_query_that_does_not_render_says_so`, `one_number_is_read_from_an_answer` |
//! | BET-20 | fractions of milliseconds | `a_duration_must_not_be_more` |
//! | BET-21 | Keptn's arguments | `keptn_makes_an_analysis_watches_and_removes_it` |
//! | BET-22 | New Relic, Google | `newrelic_is_asked_by_graph_with_a_user_key`, `an_address_of_googles_prometheus_makes_it_promql` |
//! | BET-23 | external metrics | `a_metric_that_is_not_there_is_an_answer` |
//! | BET-24 | means | `two_providers_measure_the_mean_unless_told` |
//! | BET-25 | odd answers | `an_answer_that_is_no_number_is_a_failed_check`, `a_panic_in_one_canary_stops_no_other` |
//! | BET-26 | authorities | `another_address_has_authorities_of_its_own` |
//! | BET-27 | headers | `headers_are_the_same_at_every_query` |
//! | BET-28 | leaks | `a_connection_is_used_again`, `keys_are_used_again_until_shortly_before_they_end`, `a_token_is_used_again_until_shortly_before_it_ends`, `a_token_is_kept_until_it_expires_or_is_rejected` |
//! | BET-29 | timeouts | `one_timeout_covers_everything`, `servers_that_hang_are_waited_for_side_by_side_and_not_for_ever` |
//! | BET-30 | sizes | `an_answer_that_was_cut_is_no_answer` |
//! | BET-31 | one after another | `servers_that_hang_are_waited_for_side_by_side_and_not_for_ever`, `services_that_hang_hold_a_rollout_for_a_second`, `a_service_that_is_away_delays_neither_the_rollout_nor_others` |
//! | BET-32 | nGrinder's interval | `a_poll_interval_is_obeyed` |
//! | BET-33 | unknown types | `a_task_that_is_none_is_a_bad_request` |
//! | BET-34 | Concord's times | `a_process_has_the_time_it_was_given` |
//! | BET-35 | children | `the_children_of_a_program_end_with_it` |
//! | BET-36 | tests that outlive callers | `a_test_without_a_waiting_caller_is_ended`, `the_same_test_runs_once_for_all_callers` |
//! | BET-37 | bounds | `the_number_of_tasks_is_bounded`, `of_an_endless_output_the_end_is_kept` |
//! | BET-38 | races | `of_many_at_once_one_starts` |
//! | BET-39 | gates | `gates_outlive_a_process_that_is_killed`, `an_opening_can_be_for_one_revision_or_for_a_time`, `gates_in_a_config_map_are_the_same_for_every_replica`, `a_step_is_granted_once_whoever_is_asked` |
//! | BET-40 | answers of hooks | `what_a_hook_says_is_told_with_its_status`, `every_2xx_is_a_yes` |
//! | BET-41 | no command | `a_command_must_be_there` |
//! | BET-42 | quotes | `helm_kubectl_and_bats_get_their_arguments_whole` |
//! | BET-43 | repeated alerts | `a_closed_gate_is_told_once_and_a_muted_one_not_at_all` |
//! | BET-44 | delivery | `a_service_that_comes_back_misses_nothing`, `what_is_never_delivered_is_given_up_and_told`, `what_cannot_be_delivered_is_not_tried_again`, `slack_may_say_yes_and_mean_no` |
//! | BET-45 | both spellings of proxies, a bot's token; an installation is manifests, not a chart | `both_spellings_of_a_proxy_are_taken`, `install_takes_all_of_alerting_from_a_secret` |
//! | BET-46 | series of what is gone | `a_deleted_canary_leaves_no_series_behind`, `a_canary_with_another_target_leaves_no_series_of_the_old_one` |
//! | BET-47 | readiness | `readiness_waits_for_everything_that_was_announced` |
//! | BET-48 | long texts | `a_page_of_a_megabyte_does_not_get_into_events`, `of_an_answer_a_short_clean_line_is_shown` |
//! | BET-49 | Amazon's Prometheus, certificates | `amazons_prometheus_gets_signed_requests`, `a_certificate_of_a_secret_is_shown`, `a_client_certificate_is_presented_to_servers_that_ask` |
//! | BET-50 | numbers in full | `a_check_keeps_the_value_in_full` |
//! | BET-51 | APISIX measures both | `apisix_counts_answers_of_the_canarys_own_addresses`, `apisix_is_judged_by_what_the_canarys_own_pods_answered` |

use crate::cases::{assert_complete, assert_tested};

const TABLE: &str = include_str!("acceptance.rs");

#[test]
fn every_case_has_a_test_that_exists() {
    assert_tested(TABLE);
}

#[test]
fn every_case_is_in_the_table() {
    let providers = [
        "prometheus",
        "datadog",
        "cloudwatch",
        "newrelic",
        "graphite",
        "influxdb",
        "stackdriver",
        "dynatrace",
        "keptn",
        "splunk",
        "externalmetrics",
    ];
    let others = ["8.1", "8.2", "8.4 notifiers", "8.4 load tester", "8.4 hooks"];
    let better = (1..=51).map(|number| format!("BET-{number}"));
    let providers = providers.into_iter().map(|provider| format!("8.3 {provider}"));
    assert_complete(TABLE, others.into_iter().map(str::to_owned).chain(providers).chain(better));
}
