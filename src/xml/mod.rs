//! Floor 1: a thin reader and writer of XML over roxmltree and xmlwriter.
