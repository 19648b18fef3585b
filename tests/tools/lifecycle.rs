use serde_json::{Value, json};
use siltstone::store::BucketConfigurationKind;

use super::*;

/// Rules of which one takes all noncurrent versions and the other nothing for long.
pub(crate) const RULES: &str = "<LifecycleConfiguration>\
    <Rule><ID>past</ID><Filter/><Status>Enabled</Status><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule>\
    <Rule><ID>later</ID><Filter/><Status>Enabled</Status>\
    <NoncurrentVersionExpiration><NoncurrentDays>9000</NoncurrentDays></NoncurrentVersionExpiration>\
    <AbortIncompleteMultipartUpload><DaysAfterInitiation>9000</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>\
    </LifecycleConfiguration>";

fn rules_file() -> (TempDir, String) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("rules.xml");
    fs::write(&path, RULES).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

#[test]
fn a_dry_run_tells_what_each_rule_takes_and_changes_nothing() {
    let fixture = Fixture::new();
    let before = fixture.contents();
    let (_dir, rules) = rules_file();
    let output = fixture.tool(&["--json", "lifecycle", "photos", "--dry-run", "--rules", &rules]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [past, later] = [&told["rules"][0], &told["rules"][1]];
    assert_eq!((&past["rule"], &later["rule"]), (&json!("past"), &json!("later")));
    // The objects, noncurrent versions and the upload that `stats` counts.
    assert_eq!(past["due"], json!({ "count": 2, "bytes": 300_000 + 21 }), "{told:#}");
    assert_eq!(past["next"], "2020-01-01T00:00:00.000Z");
    assert_eq!(later["due"], json!({ "count": 0, "bytes": 0 }));
    assert_eq!(later["later"], json!({ "count": 6, "bytes": 11 + 200_000 + 3 * 300_000 + 14 }));
    let due = told["due"].as_array().unwrap();
    assert!(due.len() == 2 && due.iter().all(|item| item["takes"] == "current version"), "{told:#}");
    assert!(fixture.contents() == before);
    let text = stdout(&fixture.tool(&["lifecycle", "photos", "--dry-run", "--rules", &rules, "--top", "1"]));
    assert!(text.contains("rule \"past\": 2 due now with 300021 bytes, 0 later with 0 bytes"), "{text}");
    assert_eq!(text.matches("due since").count(), 1);
}

/// Of the two current versions, one is too small to move. Older versions are moved before they are
/// taken, and those that are to be taken now are not moved.
#[test]
fn a_dry_run_tells_what_becomes_cold_apart_from_what_is_taken() {
    let fixture = Fixture::new();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("rules.xml");
    let rule = |id: &str, actions: &str| {
        format!("<Rule><ID>{id}</ID><Filter/><Status>Enabled</Status>{actions}</Rule>")
    };
    let cold = "<StorageClass>COLD</StorageClass>";
    let current = format!("<Transition><Date>2020-01-01T00:00:00Z</Date>{cold}</Transition>");
    let ended = "<Expiration><Date>2019-01-01T00:00:00Z</Date></Expiration>";
    let older = format!(
        "<NoncurrentVersionTransition><NoncurrentDays>9000</NoncurrentDays>{cold}</NoncurrentVersionTransition>\
         <NoncurrentVersionExpiration><NoncurrentDays>9001</NoncurrentDays></NoncurrentVersionExpiration>"
    );
    let run = |rules: &[String], form: &[&str]| {
        fs::write(&path, format!("<LifecycleConfiguration>{}</LifecycleConfiguration>", rules.concat()))
            .unwrap();
        let arguments = ["lifecycle", "photos", "--dry-run", "--rules", path.to_str().unwrap()];
        stdout(&fixture.tool(&[form, &arguments[..]].concat()))
    };
    let rules = [rule("now", &current), rule("older", &older)];
    let told: Value = serde_json::from_str(&run(&rules, &["--json"])).unwrap();
    let rows: Vec<_> =
        told["rules"].as_array().unwrap().iter().map(|row| (&row["rule"], &row["action"])).collect();
    let moves = json!("transition to COLD");
    let takes = json!("expiration");
    assert_eq!(
        rows,
        [(&json!("now"), &moves), (&json!("older"), &takes), (&json!("older"), &moves)],
        "{told:#}"
    );
    assert_eq!(told["rules"][0]["due"], json!({ "count": 1, "bytes": 300_000 }));
    assert!(told["rules"][2]["later"]["count"].as_u64() > Some(0), "{told:#}");
    let text = run(&rules, &[]);
    assert!(text.contains("in all: 0 due now with 0 bytes"), "{text}");
    assert!(
        text.contains("rule \"now\": 1 to become COLD now with 300000 bytes, 0 later with 0 bytes"),
        "{text}"
    );
    assert!(text.contains("in all: 1 to become COLD now with 300000 bytes"), "{text}");
    let text = run(&[rule("now", &current), rule("gone", ended)], &[]);
    assert!(text.contains("in all: 2 due now") && !text.contains("COLD"), "{text}");
}

#[test]
fn the_rules_of_the_bucket_are_used_also_beside_a_server() {
    let fixture = Fixture::new();
    let refused = fixture.tool(&["lifecycle", "photos", "--dry-run"]);
    assert!(
        status(&refused) == 2 && stderr(&refused).contains("has no lifecycle rules"),
        "{}",
        stderr(&refused)
    );
    let store = open(fixture.dir.path());
    let kind = BucketConfigurationKind::Lifecycle;
    store.set_bucket_configuration("photos", kind, Some(RULES.as_bytes().to_vec())).unwrap();
    let output = fixture.tool(&["lifecycle", "photos", "--dry-run"]);
    assert!(stdout(&output).contains("in all: 2 due now with 300021 bytes"), "{}", stderr(&output));
}

#[test]
fn wrong_arguments_and_rules_are_refused() {
    let fixture = Fixture::new();
    let rules = fixture.dir.path().join("broken.xml");
    for (arguments, why) in [
        (&["lifecycle", "none", "--dry-run"][..], "there is no bucket none"),
        (&["lifecycle", "photos"], "--dry-run"),
        (&["lifecycle", "photos", "--dry-run", "--rules", "/nowhere/rules"], "/nowhere/rules"),
    ] {
        let output = fixture.tool(arguments);
        assert!(status(&output) == 2 && stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
    fs::write(&rules, "<LifecycleConfiguration><Rule/></LifecycleConfiguration>").unwrap();
    let output = fixture.tool(&["lifecycle", "photos", "--dry-run", "--rules", rules.to_str().unwrap()]);
    assert!(status(&output) == 2 && stderr(&output).contains("broken.xml"), "{}", stderr(&output));
}
