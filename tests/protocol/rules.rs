//! The rules of the interface, each with the test that holds it. A rule whose test goes away fails here.

use std::collections::BTreeSet;
use std::path::Path;

const RULES: &[(&str, &str)] = &[
    ("CreateBucket: 200 with Location", "a_bucket_is_made_and_its_location_told"),
    (
        "CreateBucket: 409 BucketAlreadyExists",
        "a_taken_name_is_refused_in_the_services_own_dialect_whoever_owns_it",
    ),
    ("CreateBucket: never anonymous", "nobody_makes_a_bucket_anonymously"),
    ("DeleteBucket: 204", "an_empty_bucket_is_deleted"),
    ("DeleteBucket: all objects go first", "a_bucket_with_objects_versions_or_markers_is_not_deleted"),
    ("HeadBucket", "a_head_of_a_bucket_tells_its_region"),
    ("GetBucketLocation", "the_location_of_a_bucket_is_the_region"),
    ("PutBucketVersioning: Enabled, Suspended", "versioning_is_enabled_and_suspended"),
    ("PutBucketVersioning: what is wrong changes nothing", "a_configuration_that_is_wrong_changes_nothing"),
    ("GetBucketVersioning: no Status when never set", "a_bucket_that_was_never_configured_has_no_status"),
    (
        "ids when Enabled, null when Suspended",
        "objects_put_while_it_is_enabled_have_ids_and_the_others_are_null",
    ),
    ("ListObjectsV2: answer", "the_second_form_tells_what_was_asked_and_what_is_there"),
    ("ListObjectsV2: lexicographic order", "keys_come_in_the_order_of_their_bytes"),
    ("ListObjectsV2: prefix", "a_prefix_holds_keys_back"),
    ("ListObjectsV2: common prefixes", "a_delimiter_groups_keys_into_common_prefixes"),
    ("ListObjectsV2: start-after", "start_after_begins_behind_a_key_and_is_echoed"),
    ("ListObjectsV2: max-keys", "max_keys_is_a_number_and_at_most_a_thousand"),
    ("ListObjectsV2: never more than 1000", "a_page_holds_a_thousand_and_no_more"),
    ("ListObjectsV2: no prefixes of uploads", "uploads_are_filtered_by_prefix_and_grouped_by_delimiter"),
    ("ListObjectsV2: NoSuchBucket", "a_bucket_that_is_not_there_is_not_listed"),
    ("ListObjectVersions: answer", "an_answer_tells_what_was_asked_and_all_of_each_version"),
    ("ListObjectVersions: markers", "pages_of_any_size_add_up_to_the_whole"),
    ("ListObjectVersions: common prefixes", "each_common_prefix_counts_as_one"),
    ("ListMultipartUploads: answer", "uploads_in_progress_are_listed_with_all_that_is_known_of_them"),
    ("ListMultipartUploads: order", "uploads_come_by_key_and_then_by_their_time"),
    ("ListMultipartUploads: markers", "markers_say_where_the_page_before_ended"),
    ("ListMultipartUploads: max-uploads 1 to 1000", "a_page_has_from_one_to_a_thousand_uploads"),
    ("ListParts: answer", "the_parts_of_an_upload_are_listed_with_all_that_is_known_of_them"),
    ("ListParts: pages", "parts_come_in_pages"),
    ("GetObject: answer", "a_get_tells_all_that_is_known_of_the_object"),
    ("GetObject: one range", "every_form_of_a_range_is_served"),
    ("GetObject: response-cache-control", "a_signed_query_overrides_headers_of_the_response"),
    ("GetObject: NoSuchKey", "a_missing_key_is_told_to_those_who_may_list"),
    ("GetObject: a current delete marker", "a_current_marker_hides_the_object_and_shows_itself"),
    ("GetObject: 405 for a named delete marker", "a_marker_that_is_named_cannot_be_read"),
    ("HeadObject: the headers of the GET", "a_head_has_the_headers_of_the_get_and_its_length"),
    ("HeadObject: a range", "a_head_of_a_range_tells_its_length"),
    ("HeadObject: 416", "a_range_that_holds_no_byte_is_not_satisfiable"),
    ("CreateMultipartUpload", "an_upload_is_begun_and_its_id_told"),
    (
        "CreateMultipartUpload: checksum algorithm and type",
        "an_algorithm_brings_its_type_unless_another_is_asked_for",
    ),
    ("UploadPart: 1 to 10,000", "part_numbers_go_from_1_to_10000"),
    ("UploadPart: answer", "a_part_is_answered_with_its_tag_and_the_checksum_that_came_with_it"),
    ("UploadPart: overwrites", "a_part_that_comes_again_replaces_the_first"),
    ("UploadPart: BadDigest", "a_part_that_is_not_what_its_sender_says_is_not_kept"),
    ("CompleteMultipartUpload", "the_parts_become_the_object_in_the_order_of_their_numbers"),
    (
        "CompleteMultipartUpload: the checksum of the object",
        "a_checksum_sent_with_the_completion_must_be_that_of_the_object",
    ),
    ("CompleteMultipartUpload: no form", "a_form_is_no_list"),
    ("CompleteMultipartUpload: 400 without a part", "a_list_that_is_no_list_is_malformed"),
    ("CompleteMultipartUpload: blanks", "a_late_answer_begins_with_its_declaration_and_blanks"),
    ("CompleteMultipartUpload: an error in the 200", "a_late_failure_is_an_error_inside_of_the_answer"),
    ("EntityTooSmall", "every_part_but_the_last_listed_has_five_mebibytes"),
    ("InvalidPart", "parts_that_are_not_there_or_are_others_are_refused"),
    ("InvalidPartOrder", "parts_out_of_order_are_refused"),
    ("NoSuchUpload: completed", "a_completed_upload_is_gone_for_every_later_call"),
    ("NoSuchUpload: aborted", "an_aborted_upload_is_gone_for_every_later_call"),
    ("COMPOSITE", "a_composite_checksum_is_that_of_the_checksums_of_the_parts"),
    ("FULL_OBJECT", "the_checksum_of_the_full_object_follows_from_its_parts"),
    ("AccessDenied: 403 with a body", "a_denied_request_is_an_error_with_a_body_and_a_denied_head_without"),
    ("permissions are independent", "one_action_on_one_resource_suffices_and_all_others_together_do_not"),
    ("GetObject is not GetObjectVersion", "to_read_an_object_is_not_to_read_its_versions_nor_the_reverse"),
    ("the request id", "the_request_id_is_in_every_answer_and_differs"),
    ("every error code", "every_error_is_raised_but_those_of_the_engines"),
];

/// The names of the tests in the sources below `dir`.
fn tests_below(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let tests = text.split("#[test]\nfn ").skip(1).filter_map(|test| test.split('(').next());
        names.extend(tests.map(str::to_owned));
    }
}

#[test]
fn every_rule_has_a_test() {
    let mut names = BTreeSet::new();
    tests_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol"), &mut names);
    for (rule, test) in RULES {
        assert!(names.contains(*test), "{rule}: there is no test {test}");
    }
}
