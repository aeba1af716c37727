//! Mistakes of routers and the objects they write, with their tests.
//!
//! `R-n` are cases in which Tidegate deliberately differs from Flagger; `X-n` are checks of the written
//! objects: 1 to 16 test vectors, then special cases, then permissions. A case that is *not built* says so
//! in its row. The tests below compare the table with the code, as in `acceptance`.
//!
//! | id | about | tests |
//! | --- | --- | --- |
//! | R-1 | an edit in mid-run resets live weights | `an_edit_in_mid_run_keeps_weights_mirror_and_cookies`, `other_conditions_in_the_middle_of_a_test_do_not_restart_it`, `what_others_put_on_a_route_survives`, `no_edit_of_the_service_moves_traffic`, `an_edited_service_does_not_reset_the_share`, `a_rule_that_a_user_adds_for_the_primary_does_not_take_the_canarys_share` |
//! | R-2 | conditions in another order are a difference | `conditions_are_converted_sorted_and_defaulted`, `a_test_by_two_headers_does_not_repeat_the_prefix`, `a_test_does_not_leave_other_users_without_a_route`, `a_test_has_a_route_for_each_alternative_and_one_for_the_rest`, `reconcile_moves_no_traffic_and_comes_to_rest` |
//! | R-3 | defaults of the server are a difference | `conditions_are_converted_sorted_and_defaulted`, `cors_says_what_it_can_and_defaults_like_the_server`, `reconcile_moves_no_traffic_and_comes_to_rest` |
//! | R-4 | Traefik: weights that are left out, or equal | `all_to_the_canary_does_not_leave_a_share_with_the_primary`, `two_members_of_the_same_weight_are_not_read_as_all_to_the_primary`, `the_canary_is_a_member_only_while_it_has_traffic` |
//! | R-5 | a mirror where none can be made | `who_cannot_copy_requests_refuses_a_mirror_before_anything_is_made`, `a_rollout_under_way_is_not_stopped_by_a_wish_that_its_provider_cannot_meet`, `who_can_mirror_copies_requests_before_the_first_step`, `a_provider_that_cannot_mirror_never_says_it_does`, `a_provider_that_cannot_mirror_says_so_and_refuses_to`, `a_mirror_goes_to_the_canary_in_steps_and_in_blue_green`, `a_read_answers_the_last_write` |
//! | R-6 | A/B testing where requests cannot be told apart | `who_cannot_tell_requests_apart_refuses_a_test_before_anything_is_made`, `without_a_b_testing_no_user_is_sent_to_the_canary_for_the_test`, `a_test_that_a_provider_cannot_do_is_refused_with_its_capabilities` |
//! | R-7 | NGINX: conditions beside weights | `conditions_beside_weights_do_not_promote_at_the_first_step`, `users_named_on_the_original_are_kept` |
//! | R-8 | weights that are no split | `weights_that_are_no_split_are_never_read_as_one`, `a_route_that_lost_the_primary_is_never_read_as_a_share`, `weights_of_every_rule_are_whole_and_add_up_to_a_hundred` |
//! | R-9 | Knative: a promotion in steps | `a_stepped_promotion_does_not_take_the_primary_for_the_canary`, `a_stepped_promotion_takes_one_revision_for_two_sides_and_always_divides_all`, `a_split_that_is_not_in_effect_is_waited_for` |
//! | R-10 | plain Services: traffic that is moved, where that is asked for | `the_apex_selects_the_side_that_has_the_traffic`, `a_switched_apex_selects_the_canary_after_its_checks_and_the_primary_after_promotion`, `without_the_switch_clients_see_the_primary_at_all_times` |
//! | R-11 | Gateway API: two filters of one type | `an_expired_cookie_is_sent_to_its_bearers_only_and_joins_the_users_headers` |
//! | R-12 | Istio: the expired cookie goes to everybody | `an_expired_cookie_is_sent_to_its_bearers_only_and_joins_the_users_headers`, `at_the_end_browsers_are_told_to_drop_the_cookie` |
//! | R-13 | a cookie that browsers keep | `at_the_end_browsers_are_told_to_drop_the_cookie`, `attributes_come_in_a_fixed_order_and_only_when_set` |
//! | R-14 | a cookie that is lost | `no_share_is_written_before_its_cookie_is_stored`, `a_cookie_that_status_lost_is_kept_from_the_live_route`, `a_cookie_is_not_in_a_route_before_it_is_remembered`, `cookies_last_as_they_should_and_are_stored_before_a_route_has_them` |
//! | R-15 | the primary's cookie: drawn with every step, named, dropped | `users_who_met_the_primary_stay_there_for_a_step`, `an_unreadable_interval_does_not_stop_the_primary_cookie`, `no_share_is_written_before_its_cookie_is_stored`, `a_share_comes_with_cookies_that_are_written_down_first`, `cookies_are_retired_with_the_last_share`, `cookies_last_as_they_should_and_are_stored_before_a_route_has_them` |
//! | R-16 | edits that do not reach rules of cookies; names within names | `edits_reach_every_rule_while_cookies_are_out`, `names_are_taken_literally_and_patterns_are_anchored`, `cookie_rules_have_names_where_the_api_has_room_for_them` |
//! | R-17 | Gateway API: conditions that are swallowed | `a_condition_without_an_equivalent_never_becomes_all_users`, `conditions_of_a_test_are_not_written_over_the_rule_of_a_cookie`, `affinity_is_not_claimed_where_it_means_nothing` |
//! | R-18 | Gateway API: a route of the user's | `a_users_route_of_gateway_api_is_not_taken_over_unasked`, `a_users_route_of_that_name_is_refused_until_it_is_handed_over_and_comes_back`, `a_users_route_is_backed_up_once_and_given_back`, `a_route_that_is_referred_to_is_divided_and_given_back_whatever_deletion_reverts`, `filters_of_extensions_are_on_every_rule`, `the_way_back_and_the_way_out_are_there_with_any_spec` |
//! | R-19 | gRPC | `the_protocol_or_else_the_ports_name_tells_calls_from_requests`, `calls_are_divided_by_weight`, `calls_are_rolled_out_by_weight_over_a_route_of_calls` |
//! | R-20 | a prefix rewrite with several conditions | `a_prefix_rewrite_makes_one_rule_of_each_condition`, `a_prefix_rewrite_beside_a_test_has_one_condition_a_rule` |
//! | R-21 | Gateway API v1beta1 and retries | `a_route_counts_once_its_gateway_took_it`, `retries_are_written_where_the_cluster_knows_them`, `both_versions_write_timeouts_cors_and_retries_where_the_cluster_knows_them`, `an_older_definition_without_timeouts_cors_or_retries_is_left_without_as_by_flagger` |
//! | R-22 | Gateway API: routes that a gateway did not accept | `a_route_counts_once_its_gateway_took_it`, `a_route_of_calls_counts_once_its_gateway_took_it` |
//! | R-23 | a backup of our own objects | `a_users_route_is_backed_up_once_and_given_back`, `objects_made_for_the_canary_go_with_it` |
//! | R-24 | objects that come back in part | `a_users_route_is_backed_up_once_and_given_back`, `labels_and_annotations_that_are_written_over_come_back_too`, `a_destination_rule_of_the_users_is_given_back` |
//! | R-25 | Istio: delegation that is turned on | `a_delegate_has_neither_hosts_nor_gateways` |
//! | R-26 | Istio: query parameters and headers of a test | `conditions_of_analysis_and_service_hold_together` |
//! | R-27 | an unknown provider, or one whose kinds are not served | `an_unknown_provider_never_drives_istio`, `a_mesh_behind_the_name_of_a_provider_is_taken_and_a_typo_is_not`, `a_provider_nobody_knows_is_refused_once_and_no_other_is_driven_instead`, `a_cluster_without_routes_of_calls_says_so_and_nothing_is_touched` |
//! | R-28 | several hosts and gateways in one route; not built: several routes of one target | `hosts_and_gateways_have_their_defaults` |
//! | R-29 | NGINX: a copy that does not follow, paths of others, several headers | `annotations_of_the_original_do_not_stay_behind`, `an_annotation_that_is_only_removed_does_not_stay_behind_either`, `the_copy_has_the_paths_to_the_apex_and_no_others`, `several_headers_do_not_collapse_to_any_one_of_them` |
//! | R-30 | Skipper: no annotations, misnamed, reset, gone | `an_ingress_without_annotations_does_not_crash`, `a_misnamed_ingress_does_not_yield_a_copy_without_the_canary`, `an_edit_in_mid_run_does_not_reset_weights_and_predicate`, `an_ingress_that_is_gone_does_not_keep_the_canary_from_being_deleted` |
//! | R-31 | Contour: prefixes, patterns, retries, alternatives | `a_test_by_two_headers_does_not_repeat_the_prefix`, `a_pattern_does_not_become_a_condition_that_all_users_fit`, `retries_without_a_kind_of_failure_do_not_write_an_empty_one` |
//! | R-32 | Gloo: everybody else, options, settings, names in metrics | `a_test_does_not_leave_other_users_without_a_route`, `timeouts_and_retries_are_options_beside_those_of_others`, `settings_are_taken_from_another_upstream_at_any_time`, `a_setting_that_is_removed_does_not_cause_a_write_at_every_look`, `an_upstream_without_a_namespace_is_not_an_error_but_the_canarys_own`, `every_provider_has_a_success_rate_and_a_duration` |
//! | R-33 | Kuma: one name for two, left behind, the newer policy | `two_canaries_of_one_name_do_not_fight_over_one_route`, `a_deleted_canary_does_not_leave_a_route_to_deleted_services`, `the_newer_policy_is_taken_where_the_older_one_is_gone`, `the_newer_policy_is_about_services_and_has_an_owner`, `a_target_that_is_deleted_first_leaves_no_route_of_kuma_behind`, `an_error_that_passes_makes_no_provider_write_another_kind` |
//! | R-34 | APISIX: connections, marks of tools, priority, names in metrics | `connections_and_marks_of_tools_are_not_copied`, `a_priority_of_the_users_does_not_win_over_the_copy`, `every_provider_has_a_success_rate_and_a_duration` |
//! | R-35 | App Mesh: writes at every look, services, selectors, calls, no routes | `nodes_are_not_rewritten_at_every_tick_and_fields_of_the_controller_stay`, `no_edit_of_the_service_moves_traffic`, `a_service_that_is_deleted_or_told_another_host_is_not_left_so`, `pods_are_not_selected_by_the_name_of_the_target_but_by_their_label`, `calls_do_not_get_routes_for_requests`, `an_empty_list_of_routes_is_an_error_and_not_a_crash` |
//! | R-36 | Knative: pinned after it was given back, the usual provider | `a_deleted_canary_does_not_leave_new_revisions_without_traffic`, `what_a_provider_can_do_leaves_nothing_behind_when_it_is_deleted_half_way`, `a_canary_that_names_no_provider_has_the_usual_one` |
//! | R-37 | traffic splits: versions, no weight, matches, metadata of the apex | `linkerd_is_not_held_to_a_version_that_is_not_served`, `a_missing_weight_does_not_crash_and_live_matches_are_not_dropped`, `an_edit_in_mid_run_keeps_weights_mirror_and_cookies` |
//! | R-38 | ports of a Service that is taken over | `taking_over_a_service_keeps_its_other_ports_and_its_addresses`, `a_service_that_was_taken_over_is_given_back_as_it_was`, `any_service_that_was_taken_over_is_given_back` |
//! | R-39 | fields of a Service that change later | `changing_headless_makes_our_service_again_and_says_so`, `changing_traffic_distribution_reaches_services_of_ours`, `every_service_that_is_made_again_to_be_headless_is_told_of_once` |
//! | R-40 | labels that leak, objects of a former name | `labels_and_annotations_of_the_apex_reach_the_route`, `a_label_that_is_no_longer_asked_for_leaves_the_route_at_once_and_those_of_others_stay`, `routes_of_a_former_name_or_provider_are_left_over_and_no_others`, `services_under_names_of_old_are_deleted`, `a_renamed_service_leaves_nothing_of_its_old_name_but_what_is_the_users`, `a_provider_that_is_changed_while_nobody_looks_leaves_nothing_of_the_former_one`, `a_provider_or_protocol_that_is_changed_in_mid_run_leaves_no_share_behind`, `a_reference_that_is_renamed_in_mid_run_passes_its_share_on`, `a_reference_to_a_route_that_is_not_there_ends_in_time` |
//! | R-41 | a Service as target: metrics of its provider; another name is refused | `the_observer_follows_the_provider`, `what_a_service_cannot_be_is_refused`, `a_service_that_is_made_again_headless_or_not_is_released_all_the_same` |
//! | R-42 | unknown fields | `what_others_put_on_a_route_survives`, `what_others_put_on_a_copy_or_its_original_survives`, `fields_of_istio_we_do_not_know_are_not_lost`, `what_users_added_to_taken_over_objects_survives` |
//! | R-43 | fields that are missing | `no_live_object_makes_a_router_panic`, `a_route_that_was_bent_is_put_right`, `a_service_without_members_is_an_error_and_not_a_crash`, `missing_percents_and_flags_are_errors_and_not_crashes`, `a_spec_without_an_analysis_never_gets_as_far_as_a_router` |
//! | R-44 | two who write | `a_step_names_the_version_it_is_based_on_so_that_a_race_is_lost_and_seen`, `a_step_whose_route_write_fails_is_repeated_soon_and_taken_once`, `a_split_that_is_refused_is_tried_again_and_judged_by_the_deadline` |
//! | X-1 | Istio: hosts, gateways, ports | `hosts_and_gateways_have_their_defaults`, `destinations_carry_a_port_only_where_istio_cannot_know_it` |
//! | X-2 | Istio: no port inside the mesh; delegation | `destinations_carry_a_port_only_where_istio_cannot_know_it`, `a_delegate_has_neither_hosts_nor_gateways` |
//! | X-3 | Istio: weights and mirror, there and back | `a_read_answers_the_last_write`, `a_mirror_goes_to_the_canary_with_its_percentage` |
//! | X-4 | Istio: conditions of service and test | `conditions_of_analysis_and_service_hold_together` |
//! | X-5 | Istio: cookies of a run | `users_who_met_the_canary_stay_there_for_the_whole_run`, `users_who_met_the_primary_stay_there_for_a_step`, `at_the_end_browsers_are_told_to_drop_the_cookie`, `reconcile_moves_no_traffic_and_comes_to_rest`, `cookies_last_as_they_should_and_are_stored_before_a_route_has_them` |
//! | X-6 | Istio: given back; what is gone is no error | `an_object_that_cannot_be_given_back_is_named_or_left`, `a_backup_of_flaggers_is_kept_and_restored`, `the_annotation_of_kubectl_is_the_backup_and_wins` |
//! | X-7 | Gateway API: conditions, annotations, filters, mirror, readiness | `a_route_at_rest_leads_to_the_primary`, `what_others_put_on_a_route_survives`, `filters_come_in_a_fixed_order`, `a_test_routes_matching_requests_and_leaves_the_rest`, `a_mirror_goes_to_the_canary_in_steps_and_in_blue_green`, `a_route_counts_once_its_gateway_took_it` |
//! | X-8 | Gateway API: CORS | `cors_says_what_it_can_and_defaults_like_the_server` |
//! | X-9 | NGINX | `weights_are_annotations_under_the_prefix_of_the_operator`, `a_test_sends_only_the_named_users_to_the_canary` |
//! | X-10 | Skipper | `weights_and_predicate_go_together`, `our_predicate_comes_first_and_there_is_one` |
//! | X-11 | Traefik | `the_canary_is_a_member_only_while_it_has_traffic` |
//! | X-12 | Contour | `the_class_is_a_field_of_the_proxy`, `retries_without_a_kind_of_failure_do_not_write_an_empty_one`, `a_test_by_two_headers_does_not_repeat_the_prefix`, `a_proxy_has_no_host_and_tells_linkerd_where_it_goes` |
//! | X-13 | App Mesh | `drift_is_undone_while_weights_stay`, `a_gateway_is_told_hosts_with_a_comma_after_each`, `the_second_version_has_two_nodes_two_routers_and_two_services` |
//! | X-14 | Gloo | `each_side_has_an_upstream_that_selects_its_pods`, `a_test_does_not_leave_other_users_without_a_route`, `settings_are_taken_from_another_upstream_at_any_time` |
//! | X-15 | Kuma, APISIX, traffic splits, Knative | `reconcile_moves_no_traffic_and_comes_to_rest`, `a_read_answers_the_last_write`, `a_route_is_about_tags_and_belongs_to_no_namespace`, `the_rule_to_the_apex_is_copied_with_two_backends`, `a_split_names_the_canary_first_and_every_weight`, `the_revision_that_serves_is_the_primary_and_the_latest_is_the_canary`, `without_the_annotation_nothing_is_shifted_and_a_reconcile_brings_it_back` |
//! | X-16 | Services | `a_service_is_made_as_the_canary_says`, `drift_of_our_own_service_is_undone_and_nothing_else`, `unmanaged_keys_are_kept_as_they_are_found`, `node_ports_are_kept_by_name_or_number`, `ownership_decides_what_is_written` |
//! | X-17 | notes: three Services, and whose pods each selects | `three_services_select_two_sets_of_pods` |
//! | X-18 | notes: objects of Istio at rest | `a_virtual_service_at_rest_leads_to_the_primary`, `each_side_has_a_destination_rule_with_the_users_policy` |
//! | X-19 | notes: objects of Istio that were there before | `a_users_route_is_backed_up_once_and_given_back`, `a_destination_rule_of_the_users_is_given_back` |
//! | X-20 | notes: up to the largest share, and back in either case | `what_a_provider_can_do_promotes_a_good_version`, `what_a_provider_can_do_takes_a_bad_version_back` |
//! | X-21 | notes: a copy of the user's Ingress | `the_copy_has_the_paths_to_the_apex_and_no_others`, `weights_are_annotations_under_the_prefix_of_the_operator` |
//! | X-22 | notes: a Service as target | `a_service_is_released_and_itself_never_written` |
//! | X-23 | notes: the apex, with its ports and metadata | `drift_of_our_own_service_is_undone_and_nothing_else`, `taking_over_a_service_keeps_its_other_ports_and_its_addresses` |
//! | X-24 | notes, corrected: no mesh moves no selector; only what was made goes with a canary | `without_the_switch_clients_see_the_primary_at_all_times`, `a_users_route_is_backed_up_once_and_given_back`, `objects_made_for_the_canary_go_with_it`, `where_no_traffic_moves_a_version_is_checked_beside_it_and_that_is_told` |
//! | X-25 | permissions | `the_role_denies_nothing_and_grants_nothing_in_vain`, `nothing_is_written_but_what_the_operator_has_permission_for` |

use crate::cases::{assert_complete, assert_tested};

const TABLE: &str = include_str!("routers.rs");

#[test]
fn every_mistake_of_routers_has_a_test_that_exists() {
    assert_tested(TABLE);
}

#[test]
fn every_mistake_of_routers_is_in_the_table() {
    let better = (1..=44).map(|number| format!("R-{number}"));
    let checks = (1..=25).map(|number| format!("X-{number}"));
    assert_complete(TABLE, better.chain(checks));
}
