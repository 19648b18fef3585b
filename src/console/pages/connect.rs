//! Lines to paste, with the address of this server and the access key of the user.

use askama::Template;

use super::super::address;
use super::super::qr_code::DrawnCode;
use super::super::s3_client::Refusal;
use super::{Page, View, html};
use crate::s3::Response;

#[derive(Template)]
#[template(path = "connect.html", config = "src/console/askama.toml")]
struct ConnectPage<'a> {
    page: Page,
    endpoint: String,
    /// The address of the console.
    code: Option<DrawnCode>,
    access_key: &'a str,
    region: &'a str,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let console = match &view.console.url {
        Some(known) => known.clone(),
        None => format!("{}{}", address::origin(view.request), view.link("", &[])),
    };
    let page = ConnectPage {
        page: view.page(),
        code: DrawnCode::of_address(&console),
        endpoint: view.s3_origin(),
        access_key: view.visitor.key.access_key(),
        region: view.console.service.region(),
    };
    Ok(html(200, &page.page, &page))
}
