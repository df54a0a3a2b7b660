//! "Did you mean": names close to one that nobody knows.
//!
//! Owns: the distance and what counts as close, for models, nodes, engines and keys alike.
//! Leaves to others: where the names come from, the sentence around them.

/// Names close to `name`, the closest first, at most `limit`; case does not count. Close is at most
/// two slips in five characters, or the same name with another tag, or its beginning.
pub fn nearest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut found: Vec<((usize, usize), &str)> = known
        .into_iter()
        .filter_map(|k| Some((slips(&wanted, &k.to_lowercase())?, k)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(limit).map(|(_, k)| k).collect()
}

/// The one name that was most likely meant.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(name, known, 1).pop()
}

/// How far two names are apart, leniently and exactly; `None` = too far to be meant.
fn slips(word: &str, known: &str) -> Option<(usize, usize)> {
    if word.is_empty() {
        return None;
    }
    let exact = distance(word, known);
    // People shorten names.
    let prefix = (word.chars().count() > 1 && known.starts_with(word)).then_some(exact.min(1));
    // A tag more or less is no typo, and equal tags make no name alike.
    let by_base = near(base(word), base(known));
    // `towr` is near `tower.lan`: the first label of a host name is what people type.
    let by_label = near(base(word), known.split('.').next().unwrap_or(known));
    let lenient = [prefix, by_base, by_label].into_iter().flatten().min()?;
    Some((lenient, exact))
}

fn near(a: &str, b: &str) -> Option<usize> {
    let slips = distance(a, b);
    let longer = a.chars().count().max(b.chars().count());
    (slips * 5 <= 2 * longer).then_some(slips)
}

/// A name without its tag; a registry's host may carry a port in front of the last `/`.
fn base(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((base, tag)) if !base.is_empty() && !tag.contains('/') => base,
        _ => name,
    }
}

/// Edits between two names, where swapping neighbours is one edit, over their first 128
/// characters: longer ones are no typo.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(128).collect();
    let b: Vec<char> = b.chars().take(128).collect();
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            let changed = last[j - 1] + usize::from(!same);
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_and_other_tags_are_close() {
        let known = ["qwen3:8b", "qwen3:4b", "phi4:latest", "llama3:latest"];
        assert_eq!(nearest("qwen3:7b", known, 3), ["qwen3:4b", "qwen3:8b"]);
        assert_eq!(nearest("lama3:latest", known, 1), ["llama3:latest"]);
        assert_eq!(nearest("phi4", known, 3), ["phi4:latest"]);
        assert_eq!(nearest("qwen33", ["qwen3:latest"], 3), ["qwen3:latest"]);
        assert!(nearest("mistral-large-instruct", known, 3).is_empty());
        assert!(nearest("abc:latest", ["xyz:latest"], 3).is_empty());
        assert!(nearest("x", [], 3).is_empty());
    }

    #[test]
    fn a_registrys_port_is_no_tag() {
        let known = ["reg:5000/llama3:8b", "reg:5000/phi4:8b"];
        assert_eq!(closest("reg:5000/lama3", known), Some(known[0]));
    }

    #[test]
    fn only_near_keys_are_offered() {
        let known = ["engine", "url", "name", "api_key", "max_request_bytes"];
        for (word, want) in [
            ("enigne", Some("engine")),
            ("engines", Some("engine")),
            ("nmae", Some("name")),
            ("ulr", Some("url")),
            ("max_request_size", Some("max_request_bytes")),
            ("names", Some("name")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(closest(word, known), want, "{word}");
        }
    }

    #[test]
    fn engines_and_nodes_are_met_by_case_beginning_and_first_label() {
        let engines = ["ollama", "lmstudio", "llamacpp"];
        for (word, want) in [
            ("olama", Some("ollama")),
            ("Ollama", Some("ollama")),
            ("lmstduio", Some("lmstudio")),
            ("llama.cpp", Some("llamacpp")),
            ("lm", Some("lmstudio")),
            ("vllm", None),
        ] {
            assert_eq!(closest(word, engines), want, "{word:?}");
        }
        assert_eq!(closest("towr", ["this-pc", "tower.lan"]), Some("tower.lan"));
    }
}
