//! The style sheet and the scripts. Their addresses hold a hash of their bytes, so browsers keep
//! them until they change.

use std::sync::LazyLock;

use crate::base::digest::Sha256;
use crate::s3::{Response, ResponseBody};

use super::address::ConsoleRoot;

/// A file that pages load.
pub(super) struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

pub(super) const STYLE: Asset = Asset {
    name: "style.css",
    content_type: "text/css; charset=utf-8",
    bytes: include_bytes!("assets/style.css"),
};
pub(super) const SCRIPT: Asset = Asset {
    name: "console.js",
    content_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("assets/console.js"),
};

const UPLOAD: Asset = Asset {
    name: "upload.js",
    content_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("assets/upload.js"),
};
const LIST: Asset = Asset {
    name: "list.js",
    content_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("assets/list.js"),
};
const LIVE: Asset = Asset {
    name: "live.js",
    content_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("assets/live.js"),
};
const SLIDES: Asset = Asset {
    name: "slides.js",
    content_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("assets/slides.js"),
};
pub(super) const ICON: Asset =
    Asset { name: "icon.svg", content_type: "image/svg+xml", bytes: include_bytes!("assets/icon.svg") };
const ALL: [Asset; 7] = [STYLE, SCRIPT, LIST, LIVE, UPLOAD, SLIDES, ICON];

/// The hash of all assets.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all = ALL.map(|asset| asset.bytes).concat();
    Sha256::of(&all)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
});

impl Asset {
    /// The address.
    pub(super) fn address(&self, root: &ConsoleRoot) -> String {
        root.link(&format!("assets/{}/{}", *VERSION, self.name))
    }
}

/// The asset of a name below `assets/`.
pub(super) fn response(name: &str) -> Response {
    let found = name.split_once('/').filter(|(version, _)| *version == *VERSION);
    let found = found.and_then(|(_, name)| ALL.into_iter().find(|asset| asset.name == name));
    match found {
        Some(asset) => Response::new(200)
            .header("Content-Type", asset.content_type)
            .header("Cache-Control", "public, max-age=31536000, immutable")
            .with_body(ResponseBody::Bytes(asset.bytes.to_vec())),
        None => Response::new(404),
    }
}
