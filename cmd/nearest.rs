//! Did you mean: the known word nearest to a mistyped one.

/// The candidate with the fewest edits, if they are few for its length; case does not count.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (c, shown_distance(&word, &c.to_lowercase())))
        .filter(|(_, distance)| *distance <= (word.chars().count() / 3).max(1))
        .min_by_key(|(_, distance)| *distance)
        .map(|(c, _)| c)
}

/// A prefix counts as one edit: people shorten names.
fn shown_distance(word: &str, candidate: &str) -> usize {
    if word.len() > 1 && candidate.starts_with(word) {
        return usize::from(word != candidate);
    }
    // `towr` is near `tower.lan`: the first label of a host name is what people type.
    let label = candidate.split('.').next().unwrap_or(candidate);
    edits(word, candidate).min(edits(word, label))
}

/// Levenshtein's distance, one row at a time.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let kept = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = kept.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_offered() {
        let engines = ["ollama", "lmstudio", "llamacpp"];
        for (word, want) in [
            ("olama", Some("ollama")),
            ("Ollama", Some("ollama")),
            ("lmstduio", Some("lmstudio")),
            ("llama.cpp", Some("llamacpp")),
            ("vllm", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, engines), want, "{word:?}");
        }
        assert_eq!(nearest("towr", ["this-pc", "tower.lan"]), Some("tower.lan"));
    }
}
