//! Files that MinIO wrote, in the directory that SILTSTONE_RESCUE_SAMPLES names; without it these
//! tests do nothing. The files are not part of the project.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use siltstone::base::digest::{Md5, to_hex};

use super::content::ObjectContent;
use super::damage::DamageLog;
use super::facts::{ObjectFacts, hex};
use super::format::keys::{Encryption, KeyFault, OperatorKeys};
use super::format::record::split_metadata;
use super::format::s2::S2Reader;
use super::format::sealed_config;
use super::format::version::{VersionBody, version_name};
use super::format::xl_meta::XlMeta;
use super::layout::Deployment;
use super::system::bucket_metadata_of;
use super::versions::KeyVersions;
use super::walk::{FoundKind, FoundPath};

fn sample(name: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("SILTSTONE_RESCUE_SAMPLES")?;
    let path = Path::new(&directory).join(name);
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

fn unpacked(name: &str) -> Option<Vec<u8>> {
    let path = sample(name)?;
    if !name.ends_with(".zst") {
        return Some(fs::read(path).unwrap());
    }
    let output = Command::new("zstd").arg("-dc").arg(path).output().unwrap();
    assert!(output.status.success());
    Some(output.stdout)
}

/// A directory with the files of an archive.
fn extracted(name: &str) -> Option<tempfile::TempDir> {
    let path = sample(name)?;
    let dir = tempfile::tempdir().unwrap();
    let mut command = match name.ends_with(".zip") {
        true => Command::new("unzip"),
        false => Command::new("tar"),
    };
    match name.ends_with(".zip") {
        true => command.arg("-q").arg(&path).arg("-d").arg(dir.path()),
        false => command.args(["--zstd", "-xf"]).arg(&path).arg("-C").arg(dir.path()),
    };
    assert!(command.status().unwrap().success());
    Some(dir)
}

/// What a version is: its id, `delete` or its stored bytes, the numbers of shards, its ETag.
fn told(bytes: &[u8]) -> Vec<String> {
    let meta = XlMeta::parse(bytes).unwrap();
    let mut versions = meta.versions;
    versions.sort_by_key(|version| std::cmp::Reverse(version.modified));
    let mut told = Vec::new();
    for version in &versions {
        let id = version_name(&version.id);
        told.push(match &version.body {
            VersionBody::DeleteMarker { .. } => format!("{id} delete"),
            VersionBody::Object(object) => {
                let etag = object.user.get("etag").map_or("", String::as_str);
                let coding = &object.coding;
                format!("{id} {} {}+{} {etag}", object.size, coding.data, coding.parity)
            }
        });
    }
    told
}

#[test]
fn metadata_of_all_releases_is_read() {
    let Some(first) = unpacked("xl-meta/v1.0-ec2+2-6482.xl.meta") else { return };
    assert_eq!(told(&first), ["null 6482 2+2 eb460a70e9e7eb0f36b2e28512318bb0"]);
    let meta = XlMeta::parse(&first).unwrap();
    assert_eq!(meta.versions[0].modified, 1_610_300_046_404_396_813);
    let VersionBody::Object(object) = &meta.versions[0].body else { panic!() };
    assert_eq!((object.coding.block_bytes, object.coding.index), (10 << 20, 3));
    assert_eq!(object.coding.distribution, [3, 4, 1, 2]);
    assert_eq!(object.user["content-type"], "application/json");

    let large = unpacked("xl-meta/v1.3-9016-parts-encrypted.xl.meta.zst").unwrap();
    let meta = XlMeta::parse(&large).unwrap();
    assert_eq!(meta.versions.len(), 7);
    for version in &meta.versions {
        let VersionBody::Object(object) = &version.body else { panic!() };
        assert_eq!((object.parts.len(), object.size), (9_016, 56_747_702_861));
        let encryption = Encryption::of(&object.internal).unwrap();
        assert!(encryption.by_parts);
        let fault = encryption.object_key(&OperatorKeys::default(), "b", "k").unwrap_err();
        assert!(matches!(fault, KeyFault::Missing(id) if !id.is_empty()));
    }
    let small = told(&unpacked("xl-meta/object_small_txt.xlmeta.bin").unwrap());
    assert!(small.len() == 1 && small[0].contains(" 19 1+0 "), "{small:?}");
    let versions = told(&unpacked("xl-meta/object_versioned_txt.xlmeta.bin").unwrap());
    assert_eq!(versions.len(), 3);
    assert!(
        versions[0].ends_with("delete") && versions[1].contains(" 12 1+0") && versions[2].contains(" 2 1+0")
    );
}

#[test]
fn early_rustfs_is_told_and_not_read() {
    for name in ["2265_legacy_meta_v2_config", "2265_legacy_meta_v2_object", "2434_legacy_meta_v2_pool"] {
        let Some(bytes) = unpacked(&format!("xl-meta/rustfs-issue_{name}.bin")) else { return };
        let fault = XlMeta::parse(&bytes).unwrap_err();
        assert!(fault.what.contains("early RustFS"), "{name}: {fault}");
    }
}

#[test]
fn every_truncation_is_a_fault() {
    let Some(bytes) = unpacked("xl-meta/object_versioned_txt.xlmeta.bin") else { return };
    for cut in 0..bytes.len() {
        assert!(XlMeta::parse(&bytes[..cut]).is_err(), "{cut}");
    }
}

/// The bytes of every version of a key, or why not.
fn contents(deployment: &Deployment, bucket: &str, path: &str, damage: &DamageLog) -> Vec<(String, String)> {
    let drives = (0..deployment.drives.len()).fold(0, |mask, at| mask | 1 << at);
    let found = FoundPath { path: path.to_owned(), kind: FoundKind::Object, drives };
    let key = KeyVersions::read(deployment, bucket, &found);
    let read = |version: &super::versions::KeptVersion| {
        let object = version.object.as_ref().unwrap();
        let facts = ObjectFacts::of(&object.stored, &OperatorKeys::default(), bucket, path, 0).unwrap();
        let content = ObjectContent { deployment, bucket, path, object, facts: &facts, damage };
        let mut bytes = Vec::new();
        let read = content.read(0..facts.length).read_to_end(&mut bytes);
        let told = read.map_or_else(|error| error.to_string(), |_| to_hex(&Md5::of(&bytes)));
        (format!("{} {}", version.id, facts.length), told)
    };
    let mut told: Vec<_> = key.versions.iter().map(read).collect();
    for dangling in &key.dangling {
        told.push((dangling.version.id.clone(), format!("{} of {}", dangling.found, dangling.needed)));
    }
    told
}

#[test]
fn shards_of_five_drives_come_together_from_any_three() {
    let Some(dir) = extracted("drives/five-drives.tar.zst") else { return };
    let drive = |at: usize| dir.path().join(format!("five-drives/disk{at}"));
    let right = (
        "50051050-62bc-4928-b0d3-65f4f828a0c7 644520".to_owned(),
        "9587ddd31fead633830366f45d221d56".to_owned(),
    );
    let all = Deployment::open(&(1..=5).map(drive).collect::<Vec<_>>()).unwrap();
    let told = contents(&all, "bucket", "testobj", &DamageLog::default());
    let dangling = ("163c7c9d-e856-41ed-93ae-2adccecc8211".to_owned(), "2 of 3".to_owned());
    assert_eq!(told, [right.clone(), dangling]);
    // The first drive has no xl.meta; its shard is the one that the four others leave.
    for lost in 2..=5 {
        let three: Vec<PathBuf> = (2..=5).filter(|at| *at != lost).map(drive).collect();
        let deployment = Deployment::open(&three).unwrap();
        let told = contents(&deployment, "bucket", "testobj", &DamageLog::default());
        assert_eq!(told[0], right, "without {lost}");
    }
    for (first, second) in [(2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 5)] {
        for lost in [first, second] {
            let part = "bucket/testobj/2b4f7e41-df82-4a5e-a3c1-8df87f83332f/part.1";
            fs::rename(drive(lost).join(part), drive(lost).join("aside")).unwrap();
        }
        let told = contents(&all, "bucket", "testobj", &DamageLog::default());
        assert_eq!(told[0], right, "without {first} and {second}");
        for lost in [first, second] {
            let part = "bucket/testobj/2b4f7e41-df82-4a5e-a3c1-8df87f83332f/part.1";
            fs::rename(drive(lost).join("aside"), drive(lost).join(part)).unwrap();
        }
    }
}

#[test]
fn inline_and_file_of_one_object_come_together() {
    let Some(dir) = extracted("drives/xl-meta-inline-notinline.zip") else { return };
    let deployment = Deployment::open(&[dir.path().join("disk1"), dir.path().join("disk2")]).unwrap();
    let damage = DamageLog::default();
    let told = contents(&deployment, "testbucket", "file", &damage);
    assert_eq!(told[0].1, "fffb6377948ebea75ad2b8058e849ef5");
    assert!(told[0].0.ends_with(" 132096"), "{told:?}");
    assert_eq!(damage.take().0, []);
}

#[test]
fn ten_drives_agree_over_two_releases() {
    let Some(dir) = extracted("drives/xl-meta-consist.zip") else { return };
    let paths: Vec<PathBuf> = (1..=10).map(|at| dir.path().join(format!("drive{at}"))).collect();
    for (at, path) in (1..).zip(&paths) {
        fs::create_dir_all(path.join("bucket/key")).unwrap();
        fs::rename(dir.path().join(format!("{at}/xl.meta")), path.join("bucket/key/xl.meta")).unwrap();
    }
    let deployment = Deployment::open(&paths).unwrap();
    assert_eq!((deployment.sets.len(), deployment.sets[0].size, deployment.sets[0].needed), (1, 10, 6));
    let found = FoundPath { path: "key".to_owned(), kind: FoundKind::Object, drives: 0x3ff };
    let key = KeyVersions::read(&deployment, "bucket", &found);
    assert_eq!((key.versions.len(), key.dangling.len(), key.damage.len()), (1, 0, 0));
    let object = key.versions[0].object.as_ref().unwrap();
    assert_eq!((object.shards.len(), object.stored.size), (10, 141_250));
    assert_eq!(object.stored.user["etag"], "51fe09d68bacc8c5a68ad24e4c037777-1");
}

#[test]
fn inline_bytes_of_2022_are_read() {
    let Some(bytes) = unpacked("xl-meta/rustfs-issue_2288_legacy_xlmeta.bin") else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("bucket/key")).unwrap();
    fs::write(dir.path().join("bucket/key/xl.meta"), bytes).unwrap();
    let deployment = Deployment::open(&[dir.path().to_owned()]).unwrap();
    let told = contents(&deployment, "bucket", "key", &DamageLog::default());
    assert_eq!(told, [("null 35".to_owned(), "19aa4f255af0127db8cd4f8dd92c0ce7".to_owned())]);
}

#[test]
fn configurations_of_a_bucket_are_read() {
    let Some(bytes) = unpacked("bucket-metadata/bucket_metadata_full.xlmeta.bin") else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".minio.sys/buckets/interop/.metadata.bin");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("xl.meta"), bytes).unwrap();
    fs::write(
        dir.path().join(".minio.sys/format.json"),
        r#"{"version":"1","format":"xl-single","id":"d","xl":{"version":"3","this":"a","sets":[["a"]]}}"#,
    )
    .unwrap();
    let deployment = Deployment::open(&[dir.path().to_owned()]).unwrap();
    let metadata = bucket_metadata_of(&deployment, "interop", &DamageLog::default()).unwrap().unwrap();
    assert_eq!(metadata.name, "interop");
    let text = |name: &str| String::from_utf8_lossy(&metadata.documents[name]).into_owned();
    assert!(text("VersioningConfigXML").contains("Enabled"));
    assert!(text("QuotaConfigJSON").contains("10737418240"));
    assert!(text("LifecycleConfigXML").contains("30") && text("TaggingConfigXML").contains("storage"));
    assert!(
        text("ObjectLockConfigXML").contains("GOVERNANCE") && text("EncryptionConfigXML").contains("AES256")
    );
}

#[test]
fn a_stream_of_s2_is_decompressed() {
    let Some(bytes) = unpacked("s2/metacache.s2") else { return };
    let mut plain = Vec::new();
    S2Reader::new(&bytes[..]).read_to_end(&mut plain).unwrap();
    assert_eq!(plain.len(), 95_435);
    let sum = hex(digest(&SHA256, &plain).as_ref());
    assert_eq!(sum, "a5207175168d6c01acf021974c0dae1112e201afe7b57ca62be82f4298a69747");
}

#[test]
fn a_thousand_object_keys_are_unsealed_by_the_master_key() {
    let Some(text) = unpacked("crypto/decryptObjectInfo.json.zst") else { return };
    let objects: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let master = vec![("my-minio-key".to_owned(), *b"change this password to a secret")];
    let keys = OperatorKeys { master, ..OperatorKeys::default() };
    assert_eq!(objects.len(), 1_000);
    for object in &objects {
        let (internal, _) = split_metadata(super::format::xl_json::metadata(&object["UserDef"]));
        let encryption = Encryption::of(&internal).unwrap();
        let bucket = object["Bucket"].as_str().unwrap();
        let key = object["Name"].as_str().unwrap();
        assert!(encryption.object_key(&keys, bucket, key).is_ok(), "{bucket}/{key}");
        assert!(encryption.object_key(&keys, bucket, "another").is_err());
    }
}

#[test]
fn data_keys_of_the_static_key_are_opened() {
    let Some(text) = unpacked("crypto/vectors.json") else { return };
    let vectors: Value = serde_json::from_slice(&text).unwrap();
    let of_key = &vectors["static_kms_secret_key"];
    let secret = BASE64.decode(of_key["key_b64"].as_str().unwrap()).unwrap();
    let keys = OperatorKeys {
        secret: vec![("my-key".to_owned(), secret.try_into().unwrap())],
        ..OperatorKeys::default()
    };
    for vector in of_key["vectors"].as_array().unwrap() {
        let context =
            super::format::keys::context_text(&super::format::xl_json::metadata(&vector["context"]));
        let sealed = match &vector["ciphertext"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let opened = keys.data_key("my-key", sealed.as_bytes(), &context).unwrap();
        assert_eq!(BASE64.encode(opened), vector["plaintext_b64"].as_str().unwrap());
    }
}

#[test]
fn configurations_under_the_keys_of_the_first_user_are_opened() {
    let Some(text) = unpacked("crypto/vectors.json") else { return };
    let vectors: Value = serde_json::from_slice(&text).unwrap();
    let vectors = vectors["root_credential_encryption"].as_array().unwrap();
    assert!(vectors.len() > 3);
    for vector in vectors {
        let hex = vector["data_hex"].as_str().unwrap();
        let sealed: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        let length = vector["plaintext"].as_str().unwrap().split(' ').next().unwrap();
        let password = vector["password"].as_str().unwrap();
        let opened = sealed_config::open_with(password, &sealed).unwrap();
        assert!(opened == vec![0; length.parse().unwrap()], "{vector}");
        assert_eq!(sealed_config::open_with("another", &sealed), None);
    }
}
