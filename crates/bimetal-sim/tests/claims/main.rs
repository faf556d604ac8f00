//! Claims of the papers: each parameter of each scheme, changed alone, has the effect that its
//! paper states. Workloads are small and written down request by request. Every test is named after
//! its claim and quotes the claim.
//!
//! [`CLAIMS`] lists the tests that show each parameter's effect. Some tests stand next to their
//! scheme in `bimetal-core`, where single operations can be seen.

mod bound;
mod caches;
mod combo;
mod common;
mod griffin;
mod hybrid_disk;
mod mirrors;
mod mixedstore;
mod places;
mod yardsticks;

use std::collections::BTreeSet;
use std::path::Path;

use bimetal_core::schemes;

/// Scheme, parameters, file (below [`CORE`], or [`HERE`] for `claims/`), and test.
type Claim = (&'static str, &'static [&'static str], &'static str, &'static str);

const CORE: &str = "bimetal-core/src/schemes/";
const HERE: &str = "bimetal-sim/tests/claims/";

/// The tests of each parameter of each scheme.
const CLAIMS: &[Claim] = &[
    ("combo", &["strategy"], "combo.rs", "the_most_frequently_used_ranges_move_to_the_ssd"),
    ("combo", &["strategy"], "combo.rs", "only_randomly_accessed_ranges_move_to_the_ssd"),
    ("combo", &["strategy"], "combo.rs", "only_programs_and_libraries_move_to_the_ssd"),
    ("combo", &["strategy"], "combo.rs", "undefined_ranges_stay_and_free_ones_are_exchanged_first"),
    ("combo", &["strategy"], "claims/combo.rs", "strategies_by_files_are_better_than_no_optimizer"),
    ("combo", &["strategy"], "combo.rs", "files_of_a_list_move_and_its_first_lines_first"),
    ("combo", &["moves"], "combo.rs", "instant_moves_need_no_drive"),
    ("combo", &["repeat"], "combo.rs", "an_optimizer_that_is_not_repeated_is_applied_once"),
    ("combo", &["refine"], "combo.rs", "a_file_moves_as_a_whole_and_its_parts_alone_when_refined"),
    ("combo", &["range"], "claims/combo.rs", "what_lies_in_a_range_with_it_moves_with_it"),
    ("combo", &["period"], "claims/combo.rs", "the_optimizer_is_applied_after_each_period"),
    ("combo", &["random"], "claims/combo.rs", "the_less_random_a_range_has_to_be_the_more_ranges_move"),
    ("combo", &["frequent"], "claims/combo.rs", "the_more_often_a_range_has_to_be_used_the_fewer_move"),
    ("combo", &["idle"], "claims/combo.rs", "ranges_move_only_when_the_disk_is_idle"),
    ("smart-response", &["mode"], "claims/caches.rs", "write_back_is_clearly_faster_than_write_through"),
    ("smart-response", &["classes"], "claims/combo.rs", "data_classes_keep_a_program_in_the_cache"),
    ("smart-response", &["classes"], "smart_response.rs", "stream_of_a_program_is_cached_with_a_map"),
    ("smart-response", &["idle"], "claims/caches.rs", "maximized_mode_synchronises_at_system_idle_time"),
    (
        "smart-response",
        &["write_allocate"],
        "smart_response.rs",
        "uncached_writes_skip_the_ssd_without_write_allocation",
    ),
    (
        "smart-response",
        &["stream_bypass"],
        "claims/caches.rs",
        "one_time_sequential_streams_are_told_apart_from_a_size_on",
    ),
    ("hyperduo", &["mode"], "claims/mirrors.rs", "safe_mode_writes_both_drives_and_capacity_mode_one"),
    ("hyperduo", &["mirrored"], "claims/mirrors.rs", "mirrored_first_addresses_are_read_from_the_ssd"),
    ("hyperduo", &["range"], "claims/mirrors.rs", "a_hot_range_is_pinned_whole"),
    ("hyperduo", &["period"], "hyperduo.rs", "hot_ranges_are_pinned_until_they_are_cold"),
    ("hyperduo", &["period"], "claims/mirrors.rs", "hot_and_cold_are_told_apart_once_in_a_period"),
    ("hyperduo", &["idle"], "claims/mirrors.rs", "hot_ranges_are_copied_only_when_the_disk_is_idle"),
    ("hddboost", &["idle"], "claims/mirrors.rs", "what_was_written_is_mirrored_back_when_the_disk_is_idle"),
    ("dataplex", &["learning"], "dataplex.rs", "scan_displaces_no_frequently_used_block"),
    ("hybrid-disk", &["write_threshold"], "claims/hybrid_disk.rs", "writes_below_the_threshold_go_to_flash"),
    ("hybrid-disk", &["flush"], "claims/hybrid_disk.rs", "full_flush_delays_the_next_and_partial_flush_waits_less"),
    ("hybrid-disk", &["flush", "idle"], "hybrid_disk.rs", "idle_flush_keeps_clean_copies_until_room_is_needed"),
    ("hybrid-disk", &["flush", "period"], "hybrid_disk.rs", "periodic_flush_leaves_no_page_dirty_beyond_its_period"),
    ("hybrid-disk", &["idle"], "claims/hybrid_disk.rs", "an_idle_flush_waits_until_the_disk_is_idle"),
    (
        "hybrid-disk",
        &["period"],
        "claims/hybrid_disk.rs",
        "the_shorter_the_period_the_more_often_the_disk_is_flushed_to",
    ),
    ("hybrid-disk", &["low_watermark"], "claims/hybrid_disk.rs", "a_higher_low_watermark_flushes_earlier"),
    ("hybrid-disk", &["victim", "replacement"], "hybrid_disk.rs", "every_policy_can_choose_the_victims"),
    (
        "hybrid-disk",
        &["hold_share", "hold_time"],
        "hybrid_disk.rs",
        "what_is_held_leaves_the_disk_alone_until_it_is_much_or_old",
    ),
    ("hybrid-disk", &["pin"], "hybrid_disk.rs", "pinned_page_comes_in_by_any_access_and_stays"),
    ("hybrid-disk", &["pin"], "claims/hybrid_disk.rs", "pinned_pages_are_read_from_flash_while_their_pin_lasts"),
    ("hybrid-disk", &["in_place"], "claims/hybrid_disk.rs", "hot_pages_in_place_show_the_translation_layer"),
    ("os-managed", &["metadata"], "os_managed.rs", "metadata_of_a_file_system_is_what_no_file_has"),
    ("os-managed", &["flash_unit"], "os_managed.rs", "disk_and_flash_are_both_visible"),
    ("os-managed", &["write_threshold"], "claims/hybrid_disk.rs", "the_host_offloads_writes_below_the_threshold"),
    ("os-managed", &["regions"], "os_managed.rs", "writes_of_a_region_are_offloaded_whatever_their_size"),
    ("os-managed", &["flush_period"], "claims/hybrid_disk.rs", "the_host_flushes_once_in_a_period"),
    ("griffin", &["timeout"], "claims/griffin.rs", "a_longer_timeout_saves_more_writes_and_costs_more_reads"),
    ("griffin", &["read_threshold"], "claims/griffin.rs", "smaller_read_threshold_bounds_the_read_penalty"),
    (
        "griffin",
        &["read_threshold"],
        "claims/griffin.rs",
        "data_that_is_never_read_is_never_moved_by_the_read_threshold",
    ),
    ("griffin", &["read_window"], "claims/griffin.rs", "the_read_threshold_is_tested_once_the_window_is_full"),
    ("griffin", &["migration_size"], "claims/griffin.rs", "the_migration_size_bounds_what_waits_in_the_log"),
    ("griffin", &["log_buffer"], "claims/griffin.rs", "a_small_buffer_hides_the_rotational_latency_of_the_log"),
    ("griffin", &["overwrite_threshold"], "claims/griffin.rs", "higher_overwrite_threshold_saves_less_and_reads_less"),
    (
        "griffin",
        &["log_bypass", "log_rate"],
        "claims/griffin.rs",
        "writes_that_come_faster_than_the_log_sustains_pass_it_by",
    ),
    ("griffin", &["move_memory"], "griffin/tests.rs", "migration_of_many_batches_writes_in_order_of_address"),
    ("griffin", &["oracle"], "claims/griffin.rs", "the_ideal_cache_saves_most_without_any_read_from_the_log"),
    ("griffin", &["eviction_hint"], "claims/griffin.rs", "a_larger_buffer_cache_of_the_host_saves_more_writes"),
    ("griffin", &["eviction_hint"], "claims/griffin.rs", "recorded_evictions_count_as_those_of_the_simulated_cache"),
    ("griffin", &["migration"], "claims/griffin.rs", "a_migration_that_takes_no_time_counts_as_one_that_does"),
    ("mixedstore", &["partition"], "mixedstore.rs", "the_static_partition_sends_writes_over_4_kib_to_the_disk"),
    ("mixedstore", &["partition"], "mixedstore.rs", "writes_go_where_they_are_predicted_to_be_served_sooner"),
    ("mixedstore", &["learning"], "claims/mixedstore.rs", "what_training_has_not_seen_is_learnt_online_only"),
    ("mixedstore", &["window"], "claims/mixedstore.rs", "a_short_window_notices_a_change_of_the_workload_sooner"),
    ("mixedstore", &["training"], "mixedstore.rs", "training_ends_after_a_number_of_requests"),
    ("mixedstore", &["regulation"], "mixedstore.rs", "regulation_sends_its_share_of_excess_writes_to_the_disk"),
    (
        "mixedstore",
        &["regulation", "expected_writes"],
        "claims/mixedstore.rs",
        "writes_are_regulated_only_beyond_what_is_expected",
    ),
    (
        "mixedstore",
        &["expected_erases"],
        "../policies/wear_regulator.rs",
        "expected_erases_are_the_bound_where_the_drive_tells_its_own",
    ),
    (
        "mixedstore",
        &["expected_life"],
        "../policies/wear_regulator.rs",
        "expected_life_allows_what_the_endurance_lasts_for",
    ),
    ("mixedstore", &["wear_model"], "../policies/wear_regulator.rs", "lifetime_model_tells_where_the_drive_does_not"),
    ("mixedstore", &["idle_periods"], "claims/mixedstore.rs", "profiled_idle_periods_are_used_from_their_beginning"),
    ("mixedstore", &["wear_levelling"], "claims/mixedstore.rs", "the_drive_is_told_when_to_level_its_wear"),
    ("mixedstore", &["fragmentation_buster"], "mixedstore.rs", "coldest_pages_leave_fragmented_flash_on_an_idle_disk"),
    ("mixedstore", &["idle"], "claims/mixedstore.rs", "small_hot_data_moves_to_flash_in_idle_periods_only"),
    ("smq", &["idle"], "claims/yardsticks.rs", "dirty_blocks_of_smq_go_home_when_the_disk_is_idle"),
    ("bcache", &["bucket_size"], "claims/yardsticks.rs", "larger_buckets_are_given_up_with_more_in_them"),
    ("bcache", &["sequential_cutoff"], "claims/yardsticks.rs", "streams_pass_bcache_by_from_the_cutoff_on"),
    ("bcache", &["writeback_percent"], "bcache.rs", "dirty_blocks_stay_below_their_share_after_the_delay"),
    ("bcache", &["writeback_delay"], "claims/yardsticks.rs", "nothing_goes_home_before_the_delay"),
    ("writeboost", &["log_buffer"], "claims/yardsticks.rs", "a_larger_buffer_makes_fewer_and_longer_writes_of_the_log"),
    ("writeboost", &["idle"], "claims/yardsticks.rs", "what_is_logged_goes_home_when_the_disk_is_idle"),
    ("writeboost", &["writeback_threshold"], "claims/yardsticks.rs", "a_lower_threshold_sends_home_earlier"),
];

/// Parameters that several schemes share. One test shows the effect of each such parameter in all
/// these schemes.
const SHARED: &[(&str, &str, &str)] = &[
    ("replacement", "claims/bound.rs", "no_policy_beats_belady_in_any_scheme_that_replaces_blocks"),
    ("admission", "claims/bound.rs", "every_admission_rule_keeps_its_blocks_out"),
    ("move_rate", "claims/bound.rs", "moves_home_are_no_faster_than_their_rate_in_every_scheme"),
];

fn source(file: &str) -> String {
    let path = match file.strip_prefix("claims/") {
        Some(name) => format!("{HERE}{name}"),
        None => format!("{CORE}{file}"),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_parameter_of_every_scheme_has_a_test_of_its_claim() {
    let mut without = BTreeSet::new();
    for scheme in schemes::ALL {
        for parameter in scheme.parameters {
            let own = CLAIMS.iter().any(|(name, keys, ..)| *name == scheme.name && keys.contains(&parameter.name));
            if !own && !SHARED.iter().any(|(key, ..)| *key == parameter.name) {
                without.insert((scheme.name, parameter.name));
            }
        }
    }
    assert!(without.is_empty(), "no test shows what these do: {without:?}");
    let tests =
        CLAIMS.iter().map(|&(.., file, test)| (file, test)).chain(SHARED.iter().map(|&(_, file, test)| (file, test)));
    for (file, test) in tests {
        assert!(source(file).contains(&format!("fn {test}()")), "{file} has no test {test}");
    }
    for (scheme, keys, ..) in CLAIMS {
        let scheme = schemes::find(scheme).expect("a scheme");
        assert!(keys.iter().all(|key| scheme.parameters.iter().any(|parameter| parameter.name == *key)), "{keys:?}");
    }
}
