//! Did-you-mean: the known word nearest to a mistyped one.
//!
//! Owns: the distance and what still counts as near. Leaves to others: the sentence around it.

/// The nearest of `known`, if it is near enough to be what was meant: at most two slips (wrong,
/// missing, extra or swapped character) in five characters.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = |k: &&str, d: usize| d * 5 <= 2 * word.chars().count().max(k.chars().count());
    known
        .into_iter()
        .map(|k| (distance(word, k), k))
        .filter(|(d, k)| near(k, *d))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Edits between two words, where swapping neighbours is one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
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
    fn the_nearest_word_is_offered_only_if_it_is_near() {
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
            assert_eq!(nearest(word, known), want, "{word}");
        }
    }
}
