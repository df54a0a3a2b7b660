//! `${VAR}` and `${VAR:-default}` in the values of a configuration file.
//!
//! Owns: replacing them. Values only, never the text of the file: on the text, a variable with a
//! quote in it could add keys. Leaves to others: where the value stands (`reader`).

use super::paths::Env;

/// The value with its variables replaced, or why that cannot be. The replaced text is not looked
/// at again, and a `$` in front of anything but `{` is a plain character; `$${` is a literal `${`.
pub fn expand(value: &str, env: Env) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(kept) = before.strip_suffix('$') {
            out.push_str(kept);
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let end = from
            .find('}')
            .ok_or("a `${` without its `}`; a literal one is written `$${`")?;
        out.push_str(&variable(&from[2..end], env)?);
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The value of what stands between the braces. Empty counts as not set, as in a shell's `:-`.
fn variable(inner: &str, env: Env) -> Result<String, String> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let first_ok = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first_ok || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("${{{inner}}} does not name a variable"));
    }
    match env(name).filter(|v| !v.is_empty()) {
        Some(value) => value
            .into_string()
            .map_err(|_| format!("${{{name}}} is not valid UTF-8")),
        None => default
            .map(str::to_owned)
            .ok_or_else(|| format!("${{{name}}} is not set")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn env(name: &str) -> Option<OsString> {
        match name {
            "KEY" => Some("s\"x = 1".into()),
            "NESTED" => Some("${KEY}".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_once_and_in_place() {
        for (value, want) in [
            ("plain", "plain"),
            ("", ""),
            ("${KEY}", "s\"x = 1"),
            ("a-${KEY}-b${KEY}", "a-s\"x = 1-bs\"x = 1"),
            ("${NESTED}", "${KEY}"),
            ("${GONE:-there}", "there"),
            ("${EMPTY:-there}", "there"),
            ("${GONE:-}", ""),
            ("$KEY $$ 5$", "$KEY $$ 5$"),
            ("$${KEY}", "${KEY}"),
        ] {
            assert_eq!(expand(value, &env), Ok(want.to_owned()), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_an_error_that_names_it() {
        assert_eq!(
            expand("x${GONE}", &env),
            Err("${GONE} is not set".to_owned())
        );
        assert_eq!(
            expand("${EMPTY}", &env),
            Err("${EMPTY} is not set".to_owned())
        );
        for bad in ["${KEY", "${}", "${1A}", "${A B}", "${:-x}"] {
            assert!(expand(bad, &env).is_err(), "{bad}");
        }
    }
}
