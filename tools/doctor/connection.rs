//! Checks of the way to a server: its name, its address, TLS and the clock.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::ServerName;
use siltstone::base::Timestamp;
use siltstone::client::CertificateTrust;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::BasicConstraints;

use super::finding::Finding;
use super::wire::{PATIENCE, Reply, Target, Wire};

/// A certificate that ends within this time is due.
const EXPIRY_DUE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// The difference of clocks that signatures bear, and the one that is worth a warning.
const SKEW_MAX: Duration = Duration::from_secs(15 * 60);
const SKEW_WARNED: Duration = Duration::from_secs(60);

/// The target of the URL, if a connection to it can be opened.
///
/// # Errors
/// A message, if the URL is none or no authority is known.
pub(super) fn connect(
    url: &str,
    authorities: Option<&Path>,
    findings: &mut Vec<Finding>,
) -> Result<Option<Target>, String> {
    connect_trusting(url, &CertificateTrust::authorities(authorities), findings)
}

/// As `connect`, with the certificates that `trust` accepts.
///
/// # Errors
/// As of `connect`.
pub(super) fn connect_trusting(
    url: &str,
    trust: &CertificateTrust,
    findings: &mut Vec<Finding>,
) -> Result<Option<Target>, String> {
    let (rest, port, encrypted) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 80, false),
        (_, Some(rest)) => (rest, 443, true),
        _ => {
            return Err(format!(
                "{url}: the endpoint must be of the form http://HOST:PORT or https://HOST:PORT"
            ));
        }
    };
    let host = rest.trim_end_matches('/');
    let named = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let name = named.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
    let with_port = if named.is_some() { host.to_owned() } else { format!("{host}:{port}") };
    let tls = match encrypted {
        false => None,
        true => {
            let config = trust.client_config()?;
            let name = ServerName::try_from(name.to_owned()).map_err(|error| format!("{url}: {error}"))?;
            Some((Arc::new(config), name))
        }
    };
    let Some(address) = reachable(&with_port, findings) else { return Ok(None) };
    let target = Target { host: host.to_owned(), address, tls };
    Ok(check_handshake(&target, findings).then_some(target))
}

/// The first address that accepts a connection.
fn reachable(host: &str, findings: &mut Vec<Finding>) -> Option<SocketAddr> {
    let addresses: Vec<_> = match host.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            let change = "add a record for the name to DNS or /etc/hosts, or correct --endpoint";
            findings.push(Finding::error("dns", format!("{host} has no address: {error}"), change));
            return None;
        }
    };
    let mut open = None;
    for address in addresses {
        match std::net::TcpStream::connect_timeout(&address, PATIENCE / 4) {
            Ok(_) => open = open.or(Some(address)),
            Err(error) => findings.push(Finding::error(
                "tcp",
                format!("{address} accepts no connection: {error}"),
                "start the server, set --listen to an address that others reach, open the port in the firewall, or remove the \
                 address from DNS",
            )),
        }
    }
    open
}

fn check_handshake(target: &Target, findings: &mut Vec<Finding>) -> bool {
    if target.tls.is_none() {
        return true;
    }
    match Wire::open(target) {
        Ok(wire) => {
            let certificates = wire.certificates();
            let ends = certificates.iter().filter_map(|der| end_of(der)).min();
            findings.extend(ends.and_then(|end| check_expiry(end, now())));
            findings.extend(certificates.first().filter(|der| is_authority(der)).map(|_| of_authority()));
            true
        }
        Err(error) if error.to_string().contains(USED_AUTHORITY) => {
            findings.push(of_authority());
            false
        }
        Err(error) => {
            findings.push(Finding::error(
                "tls",
                format!("the handshake fails: {error}"),
                "renew the certificate (--tls-cert, then kill -HUP), add the intermediate ones to its file, use a name that it has, \
                 or name its authority by --ca-file",
            ));
            false
        }
    }
}

/// What rustls says of a server whose certificate is an authority's.
const USED_AUTHORITY: &str = "CaUsedAsEndEntity";
/// The extension BasicConstraints (RFC 5280, section 4.2.1.9).
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");

/// The finding for a server whose certificate is an authority's, as `openssl req -x509` makes
/// them.
fn of_authority() -> Finding {
    Finding::error(
        "tls-authority",
        "the certificate of the server is one of an authority (CA:TRUE): clients built on rustls refuse it, also as --ca-file, and others may",
        "make one for the server alone: openssl req -x509 -addext basicConstraints=critical,CA:FALSE -addext \
         subjectAltName=DNS:NAME ..., or sign one with the authority",
    )
}

/// Whether a certificate may sign others.
fn is_authority(der: &[u8]) -> bool {
    let Ok(certificate) = Certificate::from_der(der) else { return false };
    let mut extensions = certificate.tbs_certificate().extensions().into_iter().flatten();
    let constraints = extensions.find(|extension| extension.extn_id == BASIC_CONSTRAINTS);
    let constraints = constraints.map(|found| BasicConstraints::from_der(found.extn_value.as_bytes()));
    constraints.is_some_and(|constraints| constraints.is_ok_and(|it| it.ca))
}

fn end_of(der: &[u8]) -> Option<Timestamp> {
    let certificate = Certificate::from_der(der).ok()?;
    let end = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Some(Timestamp::from_millis(u64::try_from(end.as_millis()).unwrap_or(u64::MAX)))
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// The finding for a certificate that ends at `end`.
pub(super) fn check_expiry(end: Timestamp, now: Timestamp) -> Option<Finding> {
    (end.since(now) < EXPIRY_DUE).then(|| {
        let what = format!("the certificate ends at {end}");
        Finding::warning("tls-expiry", what, "renew the certificate of --tls-cert, then kill -HUP the server")
    })
}

/// The finding for the header Date of an answer.
pub(super) fn check_date(reply: &Reply, now: Timestamp) -> Option<Finding> {
    let date = reply.header("date").and_then(Timestamp::parse_http_date);
    let Some(date) = date else {
        let change = "let the proxy keep the header Date";
        return Some(Finding::warning("date", "answers have no header Date", change));
    };
    let skew = date.distance(now);
    let what = format!("the clocks of server and client differ by {} seconds", skew.as_secs());
    let change = "synchronise both clocks (timedatectl set-ntp true); signatures bear 15 minutes";
    match skew {
        skew if skew >= SKEW_MAX => Some(Finding::error("clock-skew", what, change)),
        skew if skew >= SKEW_WARNED => Some(Finding::warning("clock-skew", what, change)),
        _ => None,
    }
}

/// Asks for a page without a signature, with these further header lines.
pub(super) fn page(target: &Target, path: &str, lines: &str) -> std::io::Result<Reply> {
    let mut wire = Wire::open(target)?;
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n", target.host).as_bytes())?;
    wire.reply(false)
}

/// Checks the clock, and whether the server is ready.
pub(super) fn check_ready(target: &Target, findings: &mut Vec<Finding>) -> bool {
    match page(target, "/-/ready", "") {
        Ok(reply) => {
            findings.extend(check_date(&reply, now()));
            if reply.status == 503 {
                let said = reply.text().lines().next().unwrap_or_default().to_owned();
                findings.push(Finding::error(
                    "ready",
                    format!("the server is not ready: {said}"),
                    "see the log of the server",
                ));
            }
            true
        }
        Err(error) => {
            let what = format!("there is no answer to a plain request: {error}");
            findings.push(Finding::error(
                "http",
                what,
                "http and https differ in --endpoint, or another service has the port",
            ));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_due_two_weeks_before_its_end() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(check_expiry(now.plus(EXPIRY_DUE), now), None);
        assert_eq!(check_expiry(now.plus(EXPIRY_DUE / 2), now).unwrap().check, "tls-expiry");
        assert!(check_expiry(now, now.plus(EXPIRY_DUE)).is_some(), "one that has ended is due");
    }
}
