//! Text as pages show it.

use std::borrow::Cow;

use bytesize::ByteSize;

/// The space between groups of digits (The International System of Units, section 5.4.4): narrow,
/// and no place where a line ends.
const GROUP_SPACE: char = '\u{202f}';

/// A name with its control characters and its marks of direction made visible, which could make it
/// look like another. Templates escape the rest.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for c in text.chars() {
        if is_invisible(c) { shown += &format!("⟨U+{:04X}⟩", u32::from(c)) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Texts, each likewise.
pub(super) fn all_visible(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| visible(text).into_owned()).collect()
}

/// Characters that show nothing, and marks of direction (Unicode Standard Annex 9, section 2;
/// categories Cc, Cf, Zl and Zp).
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// A number for people: its digits in groups of three, from five digits on.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut grouped = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(GROUP_SPACE);
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of days for people.
pub(super) fn days(number: impl Into<u64>) -> String {
    let number = number.into();
    if number == 1 { "1 day".to_owned() } else { format!("{} days", count(number)) }
}

/// The address of an object in the form of S3's tools.
pub(super) fn s3_path(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}")
}

/// The kind of a file by the end of its name, as the icon that stands for it.
pub(super) fn icon_of(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    match &*end {
        "avif" | "bmp" | "gif" | "heic" | "ico" | "jpeg" | "jpg" | "png" | "svg" | "tif" | "tiff"
        | "webp" => "image",
        "avi" | "m4v" | "mkv" | "mov" | "mp4" | "mpeg" | "mpg" | "webm" => "video",
        "aac" | "aiff" | "flac" | "m4a" | "mid" | "mp3" | "oga" | "ogg" | "opus" | "wav" => "audio",
        "7z" | "bz2" | "gz" | "iso" | "rar" | "tar" | "tgz" | "xz" | "zip" | "zst" => "archive",
        "conf" | "css" | "csv" | "doc" | "docx" | "html" | "ini" | "js" | "json" | "log" | "md" | "odt"
        | "pdf" | "py" | "rs" | "rtf" | "sh" | "sql" | "toml" | "tsv" | "txt" | "xml" | "yaml" | "yml" => {
            "text"
        }
        _ => "file",
    }
}

/// A time of a listing for people, in UTC: `2026-01-31 12:00:00`.
pub(super) fn time(iso: &str) -> String {
    match iso.get(..19) {
        Some(seconds) if seconds.as_bytes()[10] == b'T' => seconds.replace('T', " "),
        _ => iso.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_and_others_left_alone() {
        assert!(matches!(visible("grün/日本 <b>.txt"), Cow::Borrowed(_)));
        assert_eq!(visible("a\u{202e}fdp.exe\n"), "a⟨U+202E⟩fdp.exe⟨U+000A⟩");
        assert_eq!(visible("\u{200b}\u{feff}\u{0}"), "⟨U+200B⟩⟨U+FEFF⟩⟨U+0000⟩");
    }

    #[test]
    fn the_end_of_a_name_chooses_the_icon() {
        assert_eq!(icon_of("holiday.2026.JPG"), "image");
        assert_eq!(icon_of("backup.tar.gz"), "archive");
        for name in ["", ".", "README", "txt", "a.unknown"] {
            assert_eq!(icon_of(name), "file", "{name}");
        }
    }

    #[test]
    fn long_numbers_have_groups_of_digits() {
        let shown = [0, 999, 1_000, 9_999, 10_000, 123_456, 1_234_567].map(count);
        let plain = shown.map(|number| number.replace(GROUP_SPACE, " "));
        assert_eq!(plain, ["0", "999", "1000", "9999", "10 000", "123 456", "1 234 567"]);
        assert_eq!(count(u64::MAX).replace(GROUP_SPACE, ""), u64::MAX.to_string());
        assert_eq!([0u32, 1, 2].map(days), ["0 days", "1 day", "2 days"]);
    }

    #[test]
    fn sizes_and_times_are_for_people() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(time("2026-01-31T12:00:00.250Z"), "2026-01-31 12:00:00");
        assert_eq!(time("never"), "never");
        assert_eq!(time("ééééééééééééé"), "ééééééééééééé");
    }
}
