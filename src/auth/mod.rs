//! Floor 3: credentials, Signature Version 4 in all its forms, chunked bodies and permissions.
