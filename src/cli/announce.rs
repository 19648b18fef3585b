//! Messages to the operator: the address on every start, first steps on the first start, and the
//! output of commands.

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

/// An address that a client on this host can connect to.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_address_is_reachable() {
        for (bound, told) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            assert_eq!(reachable(bound.parse().unwrap()).to_string(), told);
        }
    }
}
