//! Checks of keys, region, addresses of buckets and CORS.

use std::io;
use std::net::IpAddr;

use siltstone::client::encoded;
use siltstone::xml::Document;

use super::finding::Finding;
use super::session::{Ask, Session};
use super::wire::Reply;

const ORIGIN: &str = "https://doctor.invalid";

/// Creates the bucket of the examination, or looks at the one that is named. Returns whether it can
/// be used.
pub(super) fn enter(session: &Session, create: bool, findings: &mut Vec<Finding>) -> io::Result<bool> {
    let query: &[_] = if create { &[] } else { &[("list-type", "2"), ("max-keys", "1")] };
    let method = if create { "PUT" } else { "GET" };
    let reply = session.ask(Ask { method, query, ..Ask::default() })?;
    if !reply.is_good() {
        findings.push(refusal(&reply));
    }
    Ok(reply.is_good())
}

fn refusal(reply: &Reply) -> Finding {
    let message = reply.element("Message").unwrap_or_default();
    let what = format!("the first request is answered with {}: {message}", reply.refusal());
    match reply.element("Code").unwrap_or_default().as_str() {
        "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
            let region = reply.element("Region").map_or_else(String::new, |region| format!(" {region}"));
            Finding::error(
                "region",
                what,
                format!("set the region of clients to that of the server{region}, or add theirs to --region"),
            )
        }
        "SignatureDoesNotMatch" => Finding::error(
            "signature",
            what,
            "correct the secret key; if it is right, a proxy changes Host or the path: proxy_set_header Host $http_host; (nginx), \
             ProxyPreserveHost On (Apache)",
        ),
        "RequestTimeTooSkewed" => {
            Finding::error("clock-skew", what, "synchronise both clocks (timedatectl set-ntp true)")
        }
        "InvalidAccessKeyId" | "AccessDenied" | "AllAccessDisabled" => Finding::error(
            "keys",
            what,
            "correct --access-key, or let its user make buckets, or name a bucket of its own by --bucket",
        ),
        _ => Finding::error(
            "path-style",
            what,
            "let the proxy pass requests for /BUCKET and their answers unchanged",
        ),
    }
}

/// Whether buckets are found below the name of the host.
pub(super) fn check_virtual_host(session: &Session) -> io::Result<Option<Finding>> {
    let host = &session.target.host;
    let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name);
    if name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Ok(None);
    }
    let query = [("list-type", "2"), ("max-keys", "1")];
    let reply =
        session.ask_host(&format!("{}.{host}", session.bucket), Ask { query: &query, ..Ask::default() })?;
    let found = reply.is_good() && reply.element("Name").is_some_and(|name| name == session.bucket);
    let what = format!("the bucket is not found as a host name (BUCKET.{name}): {}", reply.refusal());
    let change = format!(
        "start the server with --domain {name} and add *.{name} to DNS and the certificate, or set clients to path style"
    );
    Ok((!found).then(|| Finding::note("virtual-host-style", what, change)))
}

/// Whether preflights and the headers of CORS come through. The bucket must belong to the
/// examination.
pub(super) fn check_cors(session: &Session, key: &str) -> io::Result<Option<Finding>> {
    let rule = format!(
        "<CORSConfiguration><CORSRule><AllowedOrigin>{ORIGIN}</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>\
         <AllowedMethod>GET</AllowedMethod><AllowedHeader>*</AllowedHeader></CORSRule></CORSConfiguration>"
    );
    let set = session.ask(Ask {
        method: "PUT",
        query: &[("cors", "")],
        body: rule.as_bytes(),
        ..Ask::default()
    })?;
    if !set.is_good() {
        return Ok(None);
    }
    let asked = [("origin", ORIGIN), ("access-control-request-method", "PUT")];
    let preflight = session.ask(Ask { method: "OPTIONS", key, headers: &asked, ..Ask::default() })?;
    let get = session.ask(Ask { key, headers: &asked[..1], ..Ask::default() })?;
    let allows = |reply: &Reply| reply.header("access-control-allow-origin") == Some(ORIGIN);
    let change =
        "let the proxy pass OPTIONS and the headers Origin and Access-Control-*, and add none of its own";
    let what = format!(
        "pages of an allowed origin are refused: the preflight is answered with {} and {:?}, GET with {:?}",
        preflight.status,
        preflight.header("access-control-allow-origin").unwrap_or("no origin"),
        get.header("access-control-allow-origin").unwrap_or("no origin"),
    );
    let right = preflight.is_good() && allows(&preflight) && allows(&get);
    Ok((!right).then(|| Finding::error("cors", what, change)))
}

/// Removes the objects below a prefix, and the bucket if it was created.
pub(super) fn leave(session: &Session, prefix: &str, created: bool) -> io::Result<Option<Finding>> {
    let query = [("encoding-type", "url"), ("list-type", "2"), ("prefix", prefix)];
    let page = session.ask(Ask { query: &query, ..Ask::default() })?;
    let Ok(document) = Document::parse(&page.body) else { return Ok(None) };
    let mut refused = None;
    for entry in document.root().children().filter(|child| child.name() == "Contents") {
        let key = entry.child_text("Key").ok().flatten().unwrap_or_default().replace('+', " ");
        let key = percent_encoding::percent_decode_str(&key).decode_utf8_lossy().into_owned();
        let path: Vec<_> = key.split('/').map(|segment| encoded(segment).to_string()).collect();
        let reply = session.ask(Ask { method: "DELETE", key: &path.join("/"), ..Ask::default() })?;
        refused = refused.or((!reply.is_good()).then_some(reply));
    }
    if created {
        let reply = session.ask(Ask { method: "DELETE", ..Ask::default() })?;
        refused = refused.or((!reply.is_good()).then_some(reply));
    }
    Ok(refused.map(|reply| {
        let what = format!(
            "a DELETE is answered with {}; something of the examination may be left in {}",
            reply.refusal(),
            session.bucket
        );
        Finding::error("delete", what, "let the proxy pass the method DELETE, and the user delete objects")
    }))
}
