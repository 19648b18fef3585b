//! The rules of the interface, each with the test that holds it. A rule whose test goes away fails
//! here.

use std::collections::BTreeSet;
use std::path::Path;

const RULES: &[(&str, &str)] = &[
    // Conventions.
    ("the prefix of the service's own dialect", "objects_stored_in_one_dialect_are_read_in_the_other"),
    ("the prefix of the service's own dialect in answers", "answers_are_the_same_but_for_the_prefix"),
    ("two prefixes in one request are refused", "a_mixture_of_dialects_is_refused"),
    ("x-request-id in every answer", "the_request_id_is_in_every_answer_and_differs"),
    ("request bodies with a namespace or without", "documents_are_read_in_any_namespace_and_in_none"),
    ("a key has one character at least", "a_key_has_one_character_at_least"),
    ("a key may hold slashes", "odd_keys_are_plain_keys_each_of_its_own"),
    ("path style", "a_key_has_one_character_at_least"),
    ("a sample without the bucket in its path", "a_host_below_the_domain_names_the_bucket"),
    // CreateBucket.
    ("CreateBucket: 200, empty, with Location", "a_bucket_is_created_and_its_location_returned"),
    ("CreateBucket: 409 BucketAlreadyExists", "in_the_services_own_dialect_a_taken_name_is_refused_to_all"),
    (
        "CreateBucket: the namespace is shared by all users",
        "in_the_aws_dialect_the_owner_gets_bucket_already_owned_by_you",
    ),
    ("CreateBucket: no body is needed", "a_bucket_is_made_without_any_framing_of_a_body"),
    ("CreateBucket: the region is eu", "the_bucket_may_be_wanted_where_the_server_is"),
    ("CreateBucket: never anonymous", "anonymous_requests_create_no_bucket"),
    // DeleteBucket, HeadBucket, GetBucketLocation.
    ("DeleteBucket: 204, empty", "an_empty_bucket_is_deleted"),
    ("DeleteBucket: all objects go first", "a_bucket_with_objects_versions_or_markers_is_not_deleted"),
    ("HeadBucket: 200, or 404 without a body", "a_head_of_a_bucket_tells_its_region"),
    ("HeadBucket: 403 without a body", "a_bucket_of_another_owner_than_expected_is_refused"),
    ("GetBucketLocation: the text of LocationConstraint", "the_location_of_a_bucket_is_the_region"),
    // Versioning of buckets.
    ("PutBucketVersioning: 200, empty", "documents_are_read_in_any_namespace_and_in_none"),
    ("PutBucketVersioning: Enabled, Suspended, in turns", "versioning_is_enabled_and_suspended"),
    ("PutBucketVersioning: what is wrong changes nothing", "a_configuration_that_is_wrong_changes_nothing"),
    ("PutBucketVersioning: NoSuchBucket", "a_configuration_needs_a_length_and_a_bucket"),
    ("GetBucketVersioning: no Status when never set", "a_bucket_that_was_never_configured_has_no_status"),
    (
        "Enabled: unique ids; Suspended: null",
        "objects_put_while_it_is_enabled_have_ids_and_the_others_are_null",
    ),
    ("unset: what was put is the version null", "objects_put_before_versioning_are_null_versions"),
    ("completed uploads have ids when Enabled", "a_version_gets_its_id_only_where_versioning_is_enabled"),
    ("deletions while Enabled", "with_versions_a_delete_adds_a_marker_also_for_an_absent_key"),
    ("deletions while Suspended", "while_it_is_suspended_a_null_marker_takes_the_place_of_the_null_version"),
    ("deletions while unset", "a_delete_is_204_whether_there_was_anything_or_not"),
    (
        "the headers of each answer in each state",
        "each_versioning_state_has_its_response_headers_and_no_others",
    ),
    // ListObjectsV2.
    ("ListObjectsV2: elements", "version_2_echoes_the_request_and_lists_objects"),
    ("ListObjectsV2: list-type is 2", "the_list_type_is_two_or_absent"),
    ("ListObjectsV2: lexicographic order", "keys_come_in_the_order_of_their_bytes"),
    ("ListObjectsV2: prefix", "a_prefix_holds_keys_back"),
    ("ListObjectsV2: delimiter, CommonPrefixes, KeyCount", "a_delimiter_groups_keys_into_common_prefixes"),
    (
        "ListObjectsV2: each common prefix counts as one result",
        "pages_add_up_to_the_whole_whatever_their_size",
    ),
    ("ListObjectsV2: any delimiter", "a_delimiter_may_be_any_text_and_an_empty_one_is_none"),
    ("ListObjectsV2: start-after, echoed", "start_after_begins_after_a_key_and_is_echoed"),
    (
        "ListObjectsV2: start-after beside a delimiter",
        "a_start_within_a_group_shows_the_group_while_a_key_is_left_in_it",
    ),
    ("ListObjectsV2: max-keys", "max_keys_is_a_number_and_at_most_a_thousand"),
    ("ListObjectsV2: 1000 by default and never more", "a_page_holds_a_thousand_and_no_more"),
    ("ListObjectsV2: the parameter that accepts only url", "names_are_encoded_where_that_is_asked_for"),
    ("ListObjectsV2: delete markers are no objects", "deleted_objects_are_not_listed"),
    ("ListObjectsV2: no prefixes of uploads", "uploads_are_filtered_by_prefix_and_grouped_by_delimiter"),
    ("ListObjectsV2: NoSuchBucket", "a_bucket_that_is_not_there_is_not_listed"),
    ("ListObjectsV2: continuation", "a_continuation_goes_before_start_after_and_is_echoed"),
    // ListObjectVersions.
    ("ListObjectVersions: elements", "a_response_echoes_the_request_and_describes_each_version"),
    (
        "ListObjectVersions: versions, markers and IsLatest",
        "versions_and_markers_come_interleaved_newest_first",
    ),
    (
        "ListObjectVersions: a bucket without versions",
        "a_bucket_without_versions_has_one_null_version_of_each_key",
    ),
    ("ListObjectVersions: key-marker and version-id-marker", "a_page_continues_after_the_named_version"),
    ("ListObjectVersions: the next markers", "pages_of_any_size_add_up_to_the_whole"),
    ("ListObjectVersions: markers that are none", "markers_that_are_none_are_refused"),
    (
        "ListObjectVersions: markers beside a delimiter",
        "a_marker_within_a_group_shows_the_group_while_something_is_left_in_it",
    ),
    ("ListObjectVersions: each common prefix counts as one result", "each_common_prefix_counts_as_one"),
    ("ListObjectVersions: max-keys", "no_versions_are_asked_for_and_none_are_left"),
    ("ListObjectVersions: 1000 by default and never more", "a_page_holds_a_thousand_versions_and_no_more"),
    ("ListObjectVersions: encoding", "names_are_encoded_when_it_is_asked_for"),
    // ListMultipartUploads.
    (
        "ListMultipartUploads: elements, no Delimiter when none was sent",
        "uploads_in_progress_are_listed_with_all_that_is_known_of_them",
    ),
    ("ListMultipartUploads: by key, then by initiation", "uploads_come_by_key_and_then_by_their_time"),
    ("ListMultipartUploads: key-marker and upload-id-marker", "markers_say_where_the_page_before_ended"),
    ("ListMultipartUploads: the next markers", "every_upload_is_in_just_one_page"),
    (
        "ListMultipartUploads: prefix, delimiter, CommonPrefixes",
        "uploads_are_filtered_by_prefix_and_grouped_by_delimiter",
    ),
    (
        "ListMultipartUploads: a common prefix as marker",
        "a_group_that_is_the_key_marker_is_not_shown_again_whatever_the_upload_id_marker",
    ),
    ("ListMultipartUploads: max-uploads 1 to 1000", "a_page_has_from_one_to_a_thousand_uploads"),
    (
        "ListMultipartUploads: 1000 by default and never more",
        "a_page_of_uploads_or_parts_holds_a_thousand_and_no_more",
    ),
    ("ListMultipartUploads: encoding", "every_listing_encodes_all_names_where_that_is_asked_for"),
    // ListParts.
    ("ListParts: elements", "the_parts_of_an_upload_are_listed_with_all_that_is_known_of_them"),
    ("ListParts: max-parts and part-number-marker", "parts_come_in_pages"),
    ("ListParts: 1000 by default and never more", "a_page_of_uploads_or_parts_holds_a_thousand_and_no_more"),
    ("ListParts: encoding", "keys_are_encoded_where_that_is_asked_for"),
    // GetObject and HeadObject.
    ("GetObject: 200, the body and its headers", "a_get_tells_all_that_is_known_of_the_object"),
    ("GetObject: what was stored comes back", "metadata_and_standard_headers_come_back"),
    ("GetObject: 206 with Content-Range and the length of the range", "every_form_of_a_range_is_served"),
    ("GetObject: one range only", "several_reversed_and_malformed_ranges_are_ignored"),
    ("GetObject: response-cache-control", "a_signed_query_overrides_headers_of_the_response"),
    ("GetObject: versionId", "malformed_and_unknown_version_ids_are_distinguished"),
    ("GetObject: checksum and type", "every_checksum_is_verified_echoed_and_returned"),
    (
        "GetObject: a checksum only where it is asked for, and one was sent",
        "checksums_are_returned_where_they_are_asked_for_and_none_is_invented",
    ),
    ("GetObject: no checksum of the whole for a range", "no_checksum_of_the_whole_is_returned_for_a_range"),
    ("GetObject: NoSuchKey", "a_missing_key_is_reported_to_those_who_may_list"),
    ("GetObject: NoSuchBucket", "a_missing_bucket_is_not_a_missing_key"),
    ("GetObject: 404 where a delete marker is current", "a_current_marker_hides_the_object_and_shows_itself"),
    ("GetObject: 405 for a delete marker that is named", "a_marker_that_is_named_cannot_be_read"),
    ("GetObject: delete markers in both dialects", "both_dialects_tell_of_markers_and_versions_alike"),
    ("GetObject: conditions, 412 and 304", "if_none_match_answers_304_with_the_tag_and_no_body"),
    ("HeadObject: 200 with the headers of the GET", "a_head_has_the_headers_of_the_get_and_its_length"),
    (
        "HeadObject: 400, 403, 404, 405, 412, 304 and 416 without a body",
        "a_head_is_the_get_without_its_body_whatever_comes_of_it",
    ),
    (
        "HeadObject: a range changes Content-Length alone",
        "a_head_of_a_range_differs_from_the_head_of_the_whole_in_its_length_alone",
    ),
    ("HeadObject: 416", "a_range_that_holds_no_byte_is_not_satisfiable"),
    // PutObject, CopyObject, tags, attributes.
    ("PutObject", "a_put_answers_with_the_md5_as_its_tag_and_nothing_else"),
    ("PutObject: conditions", "of_two_writers_who_race_for_a_key_exactly_one_wins"),
    ("DeleteObject of a version", "a_named_version_goes_for_good_and_is_echoed"),
    ("DeleteObjects", "many_objects_are_deleted_at_once_each_with_its_result"),
    ("CopyObject", "a_copy_has_all_that_its_source_has"),
    ("CopyObject: the directive for metadata", "metadata_is_kept_or_replaced_as_directed"),
    ("CopyObject: the directive for tags", "tags_are_kept_or_replaced_as_directed"),
    ("CopyObject: directives that are none", "directives_that_are_none_are_refused"),
    ("CopyObject: onto itself", "an_object_is_copied_onto_itself_only_to_change_something"),
    ("UploadPartCopy", "a_part_is_made_of_an_object_or_of_a_range_of_it"),
    ("GetObjectAttributes", "only_requested_attributes_are_returned"),
    ("tagging", "tags_are_set_read_and_taken_away"),
    ("ListBuckets", "buckets_are_listed_by_name_with_their_owner"),
    // CreateMultipartUpload.
    ("CreateMultipartUpload: elements", "an_upload_is_created_and_its_id_returned"),
    (
        "CreateMultipartUpload: checksum algorithm and type",
        "an_algorithm_brings_its_type_unless_another_is_asked_for",
    ),
    ("CreateMultipartUpload: a type without an algorithm", "a_checksum_type_needs_an_algorithm"),
    (
        "CreateMultipartUpload: algorithms and types that do not fit",
        "algorithms_and_types_that_do_not_go_together_are_refused",
    ),
    // UploadPart.
    (
        "UploadPart: 200 with ETag and checksum",
        "a_part_is_answered_with_its_tag_and_the_checksum_that_came_with_it",
    ),
    ("UploadPart: 1 to 10,000, required", "part_numbers_go_from_1_to_10000"),
    ("UploadPart: overwrites", "a_part_that_comes_again_replaces_the_first"),
    ("UploadPart: BadDigest", "a_part_with_a_wrong_digest_is_not_stored"),
    (
        "UploadPart: sdk-checksum-algorithm with a matching header",
        "an_algorithm_that_is_announced_for_a_part_comes_with_a_matching_header",
    ),
    ("UploadPart: the algorithm of the upload", "a_part_of_another_algorithm_than_the_uploads_is_refused"),
    ("UploadPart: a checksum in the trailer", "a_checksum_may_follow_the_part_as_a_trailer"),
    ("UploadPart: a length, or chunks", "a_part_of_unknown_length_is_taken"),
    ("UploadPart: an upload id is required", "a_part_without_its_upload_is_not_taken_for_an_object"),
    // CompleteMultipartUpload.
    (
        "CompleteMultipartUpload: elements; parts ascending",
        "the_parts_become_the_object_in_the_order_of_their_numbers",
    ),
    (
        "CompleteMultipartUpload: a checksum of the object that is sent",
        "a_checksum_sent_with_the_completion_must_be_that_of_the_object",
    ),
    (
        "CompleteMultipartUpload: a checksum that takes reading the parts",
        "without_an_announcement_a_claim_is_verified_against_the_bytes",
    ),
    ("CompleteMultipartUpload: checksums in the list", "checksums_in_the_list_must_be_those_of_the_parts"),
    ("CompleteMultipartUpload: no form", "a_form_is_no_list"),
    ("CompleteMultipartUpload: 400 without a part", "a_list_that_is_no_list_is_malformed"),
    ("CompleteMultipartUpload: 10,000 parts", "a_list_of_ten_thousand_parts_with_checksums_is_read"),
    ("CompleteMultipartUpload: EntityTooSmall", "every_part_but_the_last_listed_has_five_mebibytes"),
    ("CompleteMultipartUpload: InvalidPart", "parts_that_are_not_there_or_are_others_are_refused"),
    ("CompleteMultipartUpload: InvalidPartOrder", "parts_out_of_order_are_refused"),
    ("CompleteMultipartUpload: which refusal goes first", "the_first_of_several_faults_is_named"),
    (
        "CompleteMultipartUpload: a refusal changes nothing",
        "a_refused_completion_leaves_the_upload_as_it_was",
    ),
    ("CompleteMultipartUpload: storage of the parts is released", "parts_that_are_not_listed_are_dropped"),
    (
        "CompleteMultipartUpload: the 200 first, then blanks",
        "a_late_answer_begins_with_its_declaration_and_blanks",
    ),
    ("CompleteMultipartUpload: an error in the 200", "a_late_failure_is_an_error_inside_of_the_answer"),
    ("CompleteMultipartUpload: refusals before the 200", "checks_precede_the_response"),
    ("CompleteMultipartUpload: repeated", "in_the_aws_dialect_a_repeated_completion_has_the_same_answer"),
    ("COMPOSITE", "a_composite_checksum_is_that_of_the_checksums_of_the_parts"),
    ("COMPOSITE: every part has one", "a_composite_checksum_needs_one_of_every_part"),
    ("FULL_OBJECT", "the_checksum_of_the_full_object_follows_from_its_parts"),
    ("completed: NoSuchUpload", "a_completed_upload_is_gone_for_every_later_call"),
    // AbortMultipartUpload.
    ("AbortMultipartUpload: 204, then NoSuchUpload", "an_aborted_upload_is_gone_for_every_later_call"),
    (
        "AbortMultipartUpload: parts are freed, also those that are late",
        "parts_of_an_upload_that_ended_meanwhile_are_freed",
    ),
    ("NoSuchUpload: what is no id", "a_text_that_is_no_upload_id_names_no_upload"),
    (
        "PutBucketTagging, GetBucketTagging, DeleteBucketTagging",
        "tags_of_a_bucket_are_set_read_and_taken_away",
    ),
    ("PutBucketTagging: InvalidTag, BadRequest", "a_bucket_has_fifty_tags_by_the_rules_of_those_of_objects"),
    // Cross-origin requests.
    ("PutBucketCors, GetBucketCors, DeleteBucketCors", "rules_are_set_read_and_taken_away"),
    ("PutBucketCors: MalformedXML, InvalidRequest", "rules_that_s3_refuses_are_refused_and_change_nothing"),
    ("PutBucketCors: 64 KiB", "rules_above_the_limit_are_refused"),
    ("CORS: preflights", "a_preflight_is_answered_by_the_first_rule_that_allows_it"),
    ("CORS: refused preflights", "a_preflight_that_no_rule_allows_is_refused_with_the_messages_of_s3"),
    ("CORS: preflights need no signature", "a_preflight_needs_no_signature_and_reveals_no_bucket"),
    ("CORS: actual requests", "a_response_to_an_allowed_origin_has_the_headers_of_its_rule"),
    ("CORS: errors", "errors_have_the_headers_too"),
    ("CORS: overload", "an_overloaded_server_tells_pages_so"),
    ("CORS: the rules of the server", "the_origins_of_the_server_hold_for_buckets_without_rules"),
    ("CORS: pages of the server", "the_pages_of_the_server_are_never_shared"),
    ("GetObject: documents in browsers", "documents_that_are_read_without_a_signature_run_no_scripts"),
    // Authentication and permissions.
    ("AccessDenied: 403 with a body", "a_denied_request_is_an_error_with_a_body_and_a_denied_head_without"),
    (
        "each operation takes its permission and no other",
        "one_action_on_one_resource_suffices_and_all_others_together_do_not",
    ),
    ("each operation has a permission", "one_action_on_one_resource_suffices_and_all_others_together_do_not"),
    ("multipart operations and their permissions", "each_operation_takes_the_permission_of_its_own"),
    ("GetObject is not GetObjectVersion", "to_read_an_object_is_not_to_read_its_versions_nor_the_reverse"),
    ("copies are checked as reads", "a_source_is_checked_as_a_read_would_be"),
    ("the anonymous user", "the_anonymous_user_has_its_grants_and_no_more"),
    ("a signature that is wrong", "a_wrong_signature_is_refused_before_anything_is_revealed"),
    // Errors.
    (
        "every error code, with Code, Message, Resource and RequestId",
        "every_error_is_raised_but_those_of_the_engines",
    ),
    ("InternalError: damage", "damage_in_a_small_object_is_an_error_and_not_a_wrong_answer"),
    ("the disk is full", "a_full_disk_refuses_puts_and_goes_on_with_the_rest"),
    ("after a failed sync", "after_a_failed_sync_writes_are_refused_and_reads_go_on"),
    ("overload", "an_overloaded_server_says_when_to_come_back"),
    ("the wrong method", "a_method_that_the_path_does_not_have_is_refused_with_those_it_has"),
    ("sub-resources that are not served", "operations_that_are_not_served_say_so"),
    ("configurations that are never set", "configurations_that_are_never_set_have_their_own_errors"),
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
    let rules: BTreeSet<_> = RULES.iter().map(|(rule, _)| rule).collect();
    assert_eq!(rules.len(), RULES.len(), "a rule stands there twice");
}
