//! The file `.minio.sys/format.json`: which drive this is.

use serde_json::Value;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriveFormat {
    /// The deployment; old files have none.
    pub(crate) deployment: Option<String>,
    pub(crate) mode: DriveMode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DriveMode {
    /// Plain files, with their metadata aside.
    FileSystem,
    /// Shards.
    Erasure {
        /// This drive; empty in files that were not written to their end.
        this: String,
        /// The drives of each set, in order.
        sets: Vec<Vec<String>>,
    },
}

/// The greatest number of drives that is plausible.
const DRIVES_MAX: usize = 4096;

/// Reads the file.
///
/// # Errors
/// A message.
pub(crate) fn parse(text: &[u8]) -> Result<DriveFormat, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let deployment = value["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let mode = match value["format"].as_str() {
        Some("fs") => DriveMode::FileSystem,
        Some("xl" | "xl-single") => erasure(&value["xl"])?,
        Some(other) => return Err(format!("its format {other:?} is unknown")),
        None => return Err("it names no format".to_owned()),
    };
    Ok(DriveFormat { deployment, mode })
}

fn erasure(xl: &Value) -> Result<DriveMode, String> {
    let names = |list: &Value| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |name: &str| xl[name].as_str().unwrap_or_default().to_owned();
    let (this, sets) = match xl["version"].as_str() {
        // One set, under other names.
        Some("1") => (text("drive"), vec![names(&xl["jbod"])]),
        Some("2" | "3") => {
            let sets = xl["sets"].as_array().into_iter().flatten();
            (text("this"), sets.map(names).collect())
        }
        other => return Err(format!("its version {other:?} is unknown")),
    };
    let drives: usize = sets.iter().map(Vec::len).sum();
    if drives == 0 || drives > DRIVES_MAX {
        return Err(format!("it names {drives} drives"));
    }
    Ok(DriveMode::Erasure { this, sets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_names_its_drives() {
        let first = br#"{"version":"1","format":"xl","xl":{"version":"1","drive":"b","jbod":["a","b"]}}"#;
        let sets = vec![vec!["a".to_owned(), "b".to_owned()]];
        assert_eq!(
            parse(first),
            Ok(DriveFormat { deployment: None, mode: DriveMode::Erasure { this: "b".to_owned(), sets } })
        );
        let third = br#"{"version":"1","format":"xl-single","id":"d","xl":{"version":"3","this":"a","sets":[["a"]],"distributionAlgo":"SIPMOD+PARITY"}}"#;
        let read = parse(third).unwrap();
        assert_eq!(read.deployment.as_deref(), Some("d"));
        let plain = br#"{"version":"1","format":"fs","id":"d","fs":{"version":"2"}}"#;
        assert_eq!(parse(plain).unwrap().mode, DriveMode::FileSystem);
    }

    #[test]
    fn odd_files_are_refused() {
        for odd in [
            "",
            "[]",
            "{}",
            r#"{"format":"zfs"}"#,
            r#"{"format":"xl"}"#,
            r#"{"format":"xl","xl":{"version":"9"}}"#,
        ] {
            assert!(parse(odd.as_bytes()).is_err(), "{odd}");
        }
        assert!(parse(br#"{"format":"xl","xl":{"version":"3","this":"a","sets":[]}}"#).is_err());
    }
}
