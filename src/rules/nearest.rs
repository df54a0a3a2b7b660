//! "Did you mean": names close to one that nobody knows.
//!
//! Owns: the distance and what counts as close. Leaves to others: where the names come from.

/// Names close to `name`, the closest first, at most `limit`. Close is a small number of edits for
/// the length, or the same name with another tag.
pub fn nearest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut found: Vec<(usize, usize, &str)> = known
        .into_iter()
        .filter_map(|k| {
            let k_lower = k.to_lowercase();
            let far = wanted.chars().count().max(3) / 3 + 1;
            // A tag more or less is no typo.
            let bases = distance(base(&wanted), base(&k_lower));
            let edits = distance(&wanted, &k_lower);
            (edits.min(bases) <= far).then_some((bases, edits, k))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(limit).map(|(_, _, k)| k).collect()
}

fn base(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// Edits between two names (Levenshtein), over their first 128 characters: longer ones are no typo.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(128).collect();
    let b: Vec<char> = b.chars().take(128).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
        assert!(nearest("x", [], 3).is_empty());
    }
}
