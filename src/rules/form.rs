//! The model's name out of a form with files: `multipart/form-data` (RFC 7578, RFC 2046 section 5.1).
//!
//! Owns: finding the part that is called `model`, and which bytes of the body its content is.
//! Leaves to others: JSON bodies (`model_scan`), what the name means.
//!
//! The body is kept whole for replay, so it is looked at in one piece; files in it are passed over by
//! a search for the boundary.

use std::ops::Range;

use memchr::memmem::Finder;

use super::model_scan::NAME_LIMIT;

/// The field that is looked for.
const FIELD: &str = "model";
/// RFC 2046: a boundary is no longer.
const BOUNDARY_LIMIT: usize = 70;
/// Parts with more than this before their content are no parts of a form.
const HEAD_LIMIT: usize = 16 * 1024;

/// The boundary of a form, if the content type is one.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(parameters, "boundary")?;
    (!boundary.is_empty() && boundary.len() <= BOUNDARY_LIMIT).then_some(boundary)
}

/// The model that a form asks for, and where its name stands. As in JSON the last one wins; a file is
/// no name. `None` also for a form that does not end as it should.
pub fn scan(body: &[u8], boundary: &str) -> Option<(String, Range<u64>)> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = Finder::new(delimiter.as_bytes());
    // The first one may stand at the very start, without a line before it.
    let first = body.strip_prefix(&delimiter.as_bytes()[2..]);
    let mut at = match first {
        Some(_) => delimiter.len() - 2,
        None => finder.find(body)? + delimiter.len(),
    };
    let mut found = None;
    loop {
        let rest = &body[at..];
        if rest.starts_with(b"--") {
            return found;
        }
        // Blanks may follow a boundary on its line.
        let line = memchr::memchr(b'\n', rest)?;
        at += line + 1;
        let end = at + finder.find(&body[at..])?;
        let part = &body[at..end];
        if let Some(content) = content_of_model(part) {
            let place = at + content..end;
            let name = std::str::from_utf8(&body[place.clone()]).ok()?;
            let usable = name.len() <= NAME_LIMIT && !name.trim().is_empty();
            found = usable.then(|| (name.to_owned(), place.start as u64..place.end as u64));
        }
        at = end + delimiter.len();
    }
}

/// Where the content of a part begins, if it is the field that is looked for.
fn content_of_model(part: &[u8]) -> Option<usize> {
    let head = &part[..part.len().min(HEAD_LIMIT)];
    let end = memchr::memmem::find(head, b"\r\n\r\n")?;
    let text = std::str::from_utf8(&head[..end]).ok()?;
    let disposition = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.trim().eq_ignore_ascii_case("content-disposition");
        is_it.then_some(value)
    })?;
    let (kind, parameters) = disposition.split_once(';')?;
    let is_field = kind.trim().eq_ignore_ascii_case("form-data")
        && parameter(parameters, "name") == Some(FIELD)
        && parameter(parameters, "filename").is_none();
    is_field.then_some(end + 4)
}

/// A parameter's value without its quotes. Values with escapes are no name that is looked for.
fn parameter<'a>(parameters: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = parameters;
    loop {
        let (name, behind) = rest.split_once('=')?;
        let name = name.trim_start_matches([';', ' ', '\t']).trim();
        let behind = behind.trim_start();
        let (value, next) = match behind.strip_prefix('"') {
            Some(quoted) => {
                let end = quote_end(quoted)?;
                (&quoted[..end], &quoted[end + 1..])
            },
            None => {
                let end = behind.find(';').unwrap_or(behind.len());
                (behind[..end].trim(), &behind[end..])
            },
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = next;
    }
}

fn quote_end(quoted: &str) -> Option<usize> {
    let mut escaped = false;
    quoted.bytes().position(|b| {
        let ends = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(parts: &[(&str, &str)]) -> String {
        let part = |(head, content): &(&str, &str)| format!("--b\r\n{head}\r\n\r\n{content}\r\n");
        parts.iter().map(part).collect::<String>() + "--b--\r\n"
    }

    fn model(body: &str) -> Option<String> {
        let (name, place) = scan(body.as_bytes(), "b")?;
        assert_eq!(&body[place.start as usize..place.end as usize], name);
        Some(name)
    }

    const FILE: (&str, &str) = (
        "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav",
        "RIFF\r\n--not the end\r\n\r\n\"model\"",
    );

    #[test]
    fn the_boundary_is_read_in_every_spelling() {
        for (given, want) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            (
                "Multipart/Form-Data ;charset=utf-8; Boundary=\"a b\"",
                Some("a b"),
            ),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data", None),
            ("multipart/mixed; boundary=abc", None),
            ("application/json", None),
        ] {
            assert_eq!(boundary(given), want, "{given}");
        }
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        assert_eq!(boundary(&long), None);
    }

    #[test]
    fn the_field_is_found_before_and_behind_a_file() {
        let field = (
            "Content-Disposition: form-data; name=\"model\"",
            "whisper-1",
        );
        let bare = ("content-disposition:form-data;name=model", "whisper-1");
        for parts in [[field, FILE], [FILE, field], [FILE, bare]] {
            assert_eq!(model(&form(&parts)).as_deref(), Some("whisper-1"));
        }
        assert_eq!(
            model(&format!("preamble\r\n{}", form(&[field]))).as_deref(),
            Some("whisper-1")
        );
    }

    #[test]
    fn the_last_of_several_wins_and_a_blank_one_is_none() {
        let a = ("Content-Disposition: form-data; name=\"model\"", "a");
        let b = ("Content-Disposition: form-data; name=\"model\"", "b");
        let blank = ("Content-Disposition: form-data; name=\"model\"", " ");
        assert_eq!(model(&form(&[a, b])).as_deref(), Some("b"));
        assert_eq!(model(&form(&[a, blank])), None);
    }

    #[test]
    fn what_only_looks_like_the_field_is_not_it() {
        for (head, content) in [
            (
                "Content-Disposition: form-data; name=\"model\"; filename=\"x\"",
                "a",
            ),
            ("Content-Disposition: attachment; name=\"model\"", "a"),
            ("Content-Disposition: form-data; name=\"models\"", "a"),
            (
                "Content-Disposition: form-data; title=\"; name=model\"",
                "a",
            ),
            ("X: form-data; name=\"model\"", "a"),
        ] {
            assert_eq!(model(&form(&[(head, content)])), None, "{head}");
        }
        let field = ("Content-Disposition: form-data; name=\"model\"", "a");
        let cut = form(&[field]);
        assert_eq!(model(&cut[..cut.len() - 5]), None, "without its end");
        assert_eq!(model(""), None);
        let long = "m".repeat(NAME_LIMIT + 1);
        assert_eq!(model(&form(&[(field.0, &long)])), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let inside = [b"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n", &body[..], b"\r\n--b--"].concat();
            if let Some((name, place)) = scan(&inside, "b") {
                prop_assert_eq!(name.as_bytes(), &inside[place.start as usize..place.end as usize]);
            }
            let _ = scan(&body, "b");
        }
    }
}
