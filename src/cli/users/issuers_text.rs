//! Edits of the providers of identities in the text of a users file (`[[issuer]]`), which IAM's
//! calls ask for by their URLs without the scheme.

use serde::Deserialize;
use siltstone::auth::provider_name;
use siltstone::base::Timestamp;
use siltstone::service::ProviderEntry;
use toml_edit::{Array, ArrayOfTables, Datetime, Item, Table};

use super::tables_text::{datetime, edit_tables, removed, shown_time};

const TABLE: &str = "issuer";
const AUDIENCES: &str = "audiences";
const THUMBPRINTS: &str = "thumbprints";

/// The text with a further provider.
///
/// # Errors
/// Errors of the edit.
pub(super) fn add(
    text: &str,
    url: &str,
    audiences: &[String],
    thumbprints: &[String],
    now: Timestamp,
) -> Result<String, String> {
    let created = datetime(now)?;
    edit_tables(text, TABLE, |issuers| {
        let mut issuer = Table::new();
        issuer["url"] = toml_edit::value(url);
        issuer[AUDIENCES] = toml_edit::value(audiences.iter().collect::<Array>());
        set_thumbprints_of(&mut issuer, thumbprints);
        issuer["created"] = toml_edit::value(created);
        issuers.push(issuer);
        Ok(String::new())
    })
}

/// The text without a provider.
///
/// # Errors
/// Errors of the edit.
pub(super) fn remove(text: &str, provider: &str) -> Result<String, String> {
    edit_tables(text, TABLE, |issuers| {
        let at = position(issuers, provider)?;
        Ok(removed(issuers, at))
    })
}

/// The text with a further client of a provider, which may have it already.
///
/// # Errors
/// Errors of the edit.
pub(super) fn add_audience(text: &str, provider: &str, audience: &str) -> Result<String, String> {
    edit_audiences(text, provider, |audiences| {
        if !audiences.iter().any(|known| known.as_str() == Some(audience)) {
            audiences.push(audience);
        }
    })
}

/// The text with one client less of a provider.
///
/// # Errors
/// Errors of the edit.
pub(super) fn remove_audience(text: &str, provider: &str, audience: &str) -> Result<String, String> {
    edit_audiences(text, provider, |audiences| audiences.retain(|known| known.as_str() != Some(audience)))
}

/// The text with other thumbprints of a provider.
///
/// # Errors
/// Errors of the edit.
pub(super) fn set_thumbprints(text: &str, provider: &str, thumbprints: &[String]) -> Result<String, String> {
    edit_one(text, provider, |issuer| {
        set_thumbprints_of(issuer, thumbprints);
        Ok(())
    })
}

fn set_thumbprints_of(issuer: &mut Table, thumbprints: &[String]) {
    if thumbprints.is_empty() {
        issuer.remove(THUMBPRINTS);
    } else {
        issuer.insert(THUMBPRINTS, toml_edit::value(thumbprints.iter().collect::<Array>()));
    }
}

fn edit_audiences(text: &str, provider: &str, change: impl FnOnce(&mut Array)) -> Result<String, String> {
    edit_one(text, provider, |issuer| {
        let audiences = issuer.get_mut(AUDIENCES).and_then(Item::as_array_mut);
        change(audiences.ok_or_else(|| format!("`{AUDIENCES}` is no list"))?);
        Ok(())
    })
}

fn edit_one(
    text: &str,
    provider: &str,
    change: impl FnOnce(&mut Table) -> Result<(), String>,
) -> Result<String, String> {
    edit_tables(text, TABLE, |issuers| {
        let at = position(issuers, provider)?;
        change(issuers.get_mut(at).expect("it was found there"))?;
        Ok(String::new())
    })
}

fn position(issuers: &ArrayOfTables, provider: &str) -> Result<usize, String> {
    let mut urls = issuers.iter().map(|table| table.get("url").and_then(Item::as_str));
    let at = urls.position(|url| url.is_some_and(|url| provider_name(url) == provider));
    at.ok_or_else(|| format!("there is no provider `{provider}`"))
}

#[derive(Deserialize)]
struct ListedIssuer {
    url: String,
    audiences: Vec<String>,
    #[serde(default)]
    thumbprints: Vec<String>,
    created: Option<Datetime>,
}

#[derive(Deserialize)]
struct IssuersToml {
    #[serde(default)]
    issuer: Vec<ListedIssuer>,
}

/// The providers in the order of the file.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn providers(text: &str) -> Result<Vec<ProviderEntry>, String> {
    let file: IssuersToml = toml::from_str(text).map_err(|e| e.message().to_owned())?;
    let entries = file.issuer.into_iter().map(|issuer| ProviderEntry {
        url: issuer.url,
        audiences: issuer.audiences,
        thumbprints: issuer.thumbprints,
        created: issuer.created.as_ref().map(shown_time),
    });
    Ok(entries.collect())
}

#[cfg(test)]
mod tests {
    use siltstone::auth::Users;

    use super::*;

    const FILE: &str = "# By hand.
[[issuer]]
url = \"https://git.example\" # theirs
audiences = [\"sts\"]

# The end.
";
    const OURS: &str = "id.example:8443/realms/a";

    fn added(audiences: &[&str], thumbprints: &[&str]) -> String {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let url = format!("https://{OURS}");
        let text = add(FILE, &url, &owned(audiences), &owned(thumbprints), Timestamp::from_millis(1_502));
        valid(&text.unwrap())
    }

    fn valid(text: &str) -> String {
        Users::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        text.to_owned()
    }

    #[test]
    fn providers_come_and_go_and_the_rest_of_the_file_stays() {
        let thumbprint = "a".repeat(40);
        let text = added(&["sts", "other"], &[&thumbprint]);
        let listed = providers(&text).unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].created, None);
        let made = &listed[1];
        assert_eq!(
            (&*made.url, made.created.as_deref()),
            ("https://id.example:8443/realms/a", Some("1970-01-01T00:00:01.502Z"))
        );
        assert_eq!(
            (&made.audiences[..], &made.thumbprints[..]),
            (&["sts".into(), "other".into()][..], &[thumbprint][..])
        );
        assert_eq!(remove(&text, OURS).unwrap().trim_end(), FILE.trim_end());
        assert!(remove(&text, "id.example").is_err() && text.starts_with("# By hand."));
    }

    #[test]
    fn clients_come_once_and_the_last_one_may_go() {
        let text = added(&["sts"], &[]);
        assert_eq!(add_audience(&text, OURS, "sts").unwrap(), text);
        let both = valid(&add_audience(&text, OURS, "other").unwrap());
        assert_eq!(providers(&both).unwrap()[1].audiences, ["sts", "other"]);
        assert_eq!(remove_audience(&both, OURS, "other").unwrap(), text);
        assert_eq!(remove_audience(&text, OURS, "other").unwrap(), text);
        let none = valid(&remove_audience(&text, OURS, "sts").unwrap());
        assert_eq!(providers(&none).unwrap()[1].audiences, [""; 0]);
        // In a table that people wrote it would be a mistake.
        let theirs = remove_audience(&text, "git.example", "sts").unwrap();
        assert!(Users::parse(&theirs).unwrap_err().problem.contains("whom tokens are for"));
    }

    #[test]
    fn thumbprints_are_replaced() {
        let text = added(&["sts"], &[]);
        let with = valid(&set_thumbprints(&text, OURS, &["0f".repeat(20)]).unwrap());
        assert_eq!(providers(&with).unwrap()[1].thumbprints, ["0f".repeat(20)]);
        assert_eq!(set_thumbprints(&with, OURS, &[]).unwrap(), text);
        let wrong = set_thumbprints(&text, OURS, &["0f".repeat(19)]).unwrap();
        assert!(Users::parse(&wrong).unwrap_err().problem.contains("40 letters"));
    }
}
