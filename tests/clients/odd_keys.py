"""Keys that are hard on encodings, signatures and path handling. Each is one plain key."""

XML_SAFE = [
    "plain",
    "with space",
    " leading and trailing ",
    "plus+sign",
    "per%cent",
    "encoded%20already",
    "encoded%2Fslash",
    "a?b",
    "a#b",
    "a&b=c",
    "a=b;c,d",
    "semi;colon:at@",
    "dollar$bang!star*",
    "(parens)'quote\"double",
    "<tag>&amp;",
    "[brackets]{braces}|^`",
    "back\\slash",
    "~tilde-_.",
    "grün/Straße",
    "日本語/キー",
    "emoji \N{ROCK}",
    "combining e\N{COMBINING ACUTE ACCENT}",
    "composed \N{LATIN SMALL LETTER E WITH ACUTE}",
    "folder/",
    "/leading/slash",
    "//two//slashes//",
    ".",
    "..",
    "./dot",
    "../up",
    "a/./b",
    "a/../b",
    "a",
    "a/b",
    "tab\there",
    "new\nline",
    "k" * 1024,
    "\N{ROCK}" * 256,
]

# XML 1.0 has no way to name these, so that DeleteObjects cannot; listings return them by encoding-type=url.
NOT_IN_XML = ["control\x01\x1f\x7f", "\x0b"]

ALL = XML_SAFE + NOT_IN_XML


def names_a_file(key):
    """Whether a file may be called so, below a folder and beside all others that may ("a" is a folder's name)."""
    parts = key.split("/")
    return key != "a" and all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in parts)


FILE_NAMES = [key for key in ALL if names_a_file(key)]
