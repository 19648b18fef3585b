//! QR codes: a phone takes over an address that nobody wants to type.

use std::fmt::Write as _;

use qrcodegen::{QrCode, QrCodeEcc};

/// The white modules around a code, without which some readers do not find it.
const QUIET_ZONE: i32 = 4;

/// A code as a drawing: a path of black modules in a white square.
pub(super) struct DrawnCode {
    /// The side of the square, in modules.
    pub(super) side: i32,
    pub(super) path: String,
}

impl DrawnCode {
    /// The code of an address; `None` for one that is too long for any code, and for one that leads
    /// a phone to itself.
    pub(super) fn of_address(address: &str) -> Option<Self> {
        if is_of_this_host(address) {
            return None;
        }
        let code = QrCode::encode_text(address, QrCodeEcc::Low).ok()?;
        Some(Self { side: code.size() + 2 * QUIET_ZONE, path: path(&code) })
    }
}

/// A rectangle for each run of black modules in a row.
fn path(code: &QrCode) -> String {
    let mut path = String::new();
    for y in 0..code.size() {
        let mut x = 0;
        while x < code.size() {
            let begin = x;
            while code.get_module(x, y) {
                x += 1;
            }
            if x > begin {
                let left = begin + QUIET_ZONE;
                let top = y + QUIET_ZONE;
                let width = x - begin;
                let _ = write!(path, "M{left} {top}h{width}v1h-{width}z");
            }
            x += 1;
        }
    }
    path
}

/// Whether the host of an address is a name by which each host reaches itself.
fn is_of_this_host(address: &str) -> bool {
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    let authority = rest.split('/').next().unwrap_or_default();
    authority.starts_with("127.") || authority.starts_with("[::1]") || {
        let host = authority.split(':').next().unwrap_or_default();
        host == "localhost" || host.ends_with(".localhost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules that a path draws.
    fn drawn(code: &DrawnCode) -> Vec<(i32, i32)> {
        let mut modules = Vec::new();
        for part in code.path.split_terminator('z') {
            let numbers: Vec<i32> = part
                .split(|c: char| !c.is_ascii_digit())
                .filter(|number| !number.is_empty())
                .map(|number| number.parse().unwrap())
                .collect();
            let [left, top, width, 1, back] = numbers[..] else { panic!("{part}") };
            assert_eq!(width, back);
            modules.extend((left..left + width).map(|x| (x, top)));
        }
        modules
    }

    #[test]
    fn a_drawing_has_the_modules_of_the_code_and_a_white_edge() {
        for address in ["https://box.example:9000", &format!("https://box.example/{}", "k".repeat(900))] {
            let code = DrawnCode::of_address(address).unwrap();
            let expected = QrCode::encode_text(address, QrCodeEcc::Low).unwrap();
            assert_eq!(code.side, expected.size() + 8);
            let modules = drawn(&code);
            let black = (0..expected.size())
                .flat_map(|y| (0..expected.size()).map(move |x| (x, y)))
                .filter(|&(x, y)| expected.get_module(x, y));
            assert!(black.map(|(x, y)| (x + 4, y + 4)).eq(modules.iter().copied()), "{address}");
        }
    }

    #[test]
    fn addresses_that_no_code_holds_or_no_phone_reaches_have_none() {
        assert!(DrawnCode::of_address(&format!("https://h/{}", "k".repeat(3_000))).is_none());
        for address in
            ["http://127.0.0.1:9000", "http://localhost:9000/b", "https://[::1]/b", "http://a.localhost"]
        {
            assert!(DrawnCode::of_address(address).is_none(), "{address}");
        }
        for address in ["http://localhost.example/", "https://[fd00::1]:9000/b", "http://192.168.0.7"] {
            assert!(DrawnCode::of_address(address).is_some(), "{address}");
        }
    }
}
