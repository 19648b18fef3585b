//! Messages to the operator: the address on every start, first steps on the first start, and the
//! output of commands.

use std::fs;
use std::io::{self, IsTerminal as _, Write, stderr, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use siltstone::auth::KeyPair;

/// Shows generated keys at once, before a later step can fail, with `endpoint` if it is known
/// already: lines of the log that follow would stand within what is to be pasted. Without a
/// terminal, standard error is a file, a journal or a log collector, where others could read
/// secrets: the message then names the file that holds them.
pub(crate) fn keys(users: &Path, region: &str, keys: &KeyPair, endpoint: Option<&str>) {
    if !stderr().is_terminal() {
        eprintln!(
            "First start: created the user `admin` with the access key {}. Its secret key is in {}; it is shown only on a terminal.",
            keys.access_key,
            users.display()
        );
        return;
    }
    let endpoint = endpoint.map(line_of_endpoint).unwrap_or_default();
    eprintln!(
        "First start: created the user `admin` in {}. Its keys are shown only once:\n\n  \
         export AWS_ACCESS_KEY_ID={}\n  export AWS_SECRET_ACCESS_KEY={}\n  export AWS_DEFAULT_REGION={region}\n{endpoint}",
        users.display(),
        keys.access_key,
        keys.secret_key.reveal()
    );
}

fn line_of_endpoint(endpoint: &str) -> String {
    format!("  export AWS_ENDPOINT_URL={endpoint}\n")
}

/// Writes the output of a command to standard output.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> io::Result<()> {
    let mut out = stdout().lock();
    lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()
}

/// After [`keys`], shows how to use them, if they were shown, and the endpoint, if it was not known
/// there. `link` is the path that signs a browser in at the console, which this host reaches by
/// `console`.
pub(crate) fn first_steps(endpoint: Option<&str>, console: &str, link: Option<&str>) {
    if !stderr().is_terminal() {
        return;
    }
    let endpoint = endpoint.map(line_of_endpoint).unwrap_or_default();
    eprintln!(
        "{endpoint}\nPaste the lines with `export` into another terminal. Then, for example:\n\n  \
         aws s3 mb s3://my-bucket\n  aws s3 cp README.md s3://my-bucket/\n  aws s3 ls s3://my-bucket/\n"
    );
    if let Some(link) = link {
        eprintln!(
            "Or open the console in a browser on this host (the link works once, within an hour):\n\n  {console}{link}\n"
        );
    }
}

/// The one line on standard output.
pub(crate) fn listening(scheme: &str, address: SocketAddr) {
    // A closed standard output does not stop the server.
    let _ = writeln!(stdout(), "listening on {scheme}://{address}").and_then(|()| stdout().flush());
}

/// Where browsers find a console that is bound to `address`: at `url` if that is set. Of all
/// addresses one of this host is named, and how to find the others: within a container nothing is
/// known of its host and of the port that it publishes.
pub(crate) fn console_place(scheme: &str, address: SocketAddr, path: &str, url: Option<&str>) -> String {
    if let Some(url) = url {
        return url.to_owned();
    }
    let place = format!("{scheme}://{}{path}", reachable(address));
    if !address.ip().is_unspecified() {
        return place;
    }
    format!(
        "{place} on this host; of a container, at the address of its host, with the port that is published for {}",
        address.port()
    )
}

/// An address that a client on this host can connect to. `[::]` stands for the addresses of IPv4,
/// too, unless the system was told otherwise, and containers often have no `::1`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V6(_) if is_ipv6_apart() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// Whether `[::]` takes no connections of IPv4 (ipv6(7), `bindv6only`).
fn is_ipv6_apart() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|setting| setting.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_address_is_reachable() {
        for (bound, told) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "127.0.0.1:1"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            assert_eq!(reachable(bound.parse().unwrap()).to_string(), told);
        }
    }

    #[test]
    fn the_console_is_named_by_an_address_that_a_browser_can_open() {
        let place = |bound: &str, url| console_place("http", bound.parse().unwrap(), "/-/console/", url);
        assert_eq!(place("10.0.0.1:1", None), "http://10.0.0.1:1/-/console/");
        assert_eq!(place("[::]:1", Some("https://c/ui")), "https://c/ui");
        let all = place("[::]:9001", None);
        assert!(all.starts_with("http://127.0.0.1:9001/-/console/ on this host; of a container, "), "{all}");
        assert!(all.ends_with("published for 9001"), "{all}");
    }
}
