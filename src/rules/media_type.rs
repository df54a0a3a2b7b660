//! What a `Content-Type` says, without its parameters.
//!
//! Owns: taking the parameters off. Leaves to others: what a type means (`gate`, `usage`,
//! `wire::journal`).

/// An event stream.
pub const EVENT_STREAM: &[u8] = b"text/event-stream";

/// The type itself, in whatever case it was written: what stands before a semicolon.
pub fn essence(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|&byte| byte == b';');
    content_type[..end.unwrap_or(content_type.len())].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_blanks_are_taken_off() {
        for (value, want) in [
            ("text/event-stream", "text/event-stream"),
            (" a/b ; charset=utf-8; x", "a/b"),
            (";", ""),
            ("", ""),
        ] {
            assert_eq!(essence(value.as_bytes()), want.as_bytes(), "{value}");
        }
    }
}
