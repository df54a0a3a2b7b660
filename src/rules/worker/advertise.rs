//! Which models a worker advertises, out of what its engine tells.
//!
//! Owns: leaving out what no registry would take. Leaves to others: the bounds (`pool::sizes`),
//! reading lists (`rules::inventory`).

use std::collections::{BTreeMap, HashSet};

use crate::rules::inventory::Reading;
use crate::rules::pool::record::ModelEntry;
use crate::rules::pool::sizes::{MAX_CONTEXT, MAX_MODELS, is_model_name};

/// The models of a reading, and how many of them the registry would refuse: an engine's one odd name
/// must not keep its others out.
pub fn models(reading: &Reading) -> (Vec<ModelEntry>, usize) {
    let none = Vec::new();
    let warm: HashSet<&str> = reading
        .warm
        .as_ref()
        .unwrap_or(&none)
        .iter()
        .map(String::as_str)
        .collect();
    let context: BTreeMap<&str, u64> = reading
        .context
        .iter()
        .map(|(name, tokens)| (name.as_str(), *tokens))
        .collect();
    let listed = reading.models.as_ref().unwrap_or(&none);
    let mut seen = HashSet::new();
    let mut entries: Vec<ModelEntry> = listed
        .iter()
        .filter(|name| is_model_name(name) && seen.insert(name.as_str()))
        .map(|name| ModelEntry {
            id: name.clone(),
            context_length: context
                .get(name.as_str())
                .copied()
                .filter(|tokens| (1..=MAX_CONTEXT).contains(tokens)),
            is_warm: warm.contains(name.as_str()),
        })
        .collect();
    // What is in memory is what requests are for.
    entries.sort_by_key(|e| !e.is_warm);
    entries.truncate(MAX_MODELS);
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    let left_out = listed.len() - entries.len();
    (entries, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::pool::sizes;
    use proptest::prelude::*;

    fn reading(models: &[&str], warm: &[&str]) -> Reading {
        let texts = |list: &[&str]| Some(list.iter().map(|t| (*t).to_owned()).collect());
        Reading {
            models: texts(models),
            warm: texts(warm),
            ..Reading::default()
        }
    }

    #[test]
    fn warm_models_and_contexts_are_told_where_known() {
        let told = Reading {
            context: vec![("b".into(), 4096), ("c".into(), 0), ("x".into(), 1)],
            ..reading(&["a", "b", "c"], &["b", "gone"])
        };
        let (models, left_out) = models(&told);
        let shown: Vec<_> = models
            .iter()
            .map(|m| (m.id.as_str(), m.context_length, m.is_warm))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", None, false),
                ("b", Some(4096), true),
                ("c", None, false)
            ]
        );
        assert_eq!(left_out, 0);
        let untold = Reading {
            warm: None,
            ..reading(&["a"], &[])
        };
        assert!(!super::models(&untold).0[0].is_warm);
    }

    #[test]
    fn of_too_many_the_warm_ones_stay() {
        let names: Vec<String> = (0..1_500).map(|n| format!("m{n:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (models, left_out) = models(&reading(&names, &["m1499"]));
        assert_eq!((models.len(), left_out), (1_000, 500));
        assert_eq!(models.last().unwrap().id, "m1499");
    }

    proptest! {
        #[test]
        fn whatever_an_engine_lists_the_registry_takes(
            names in proptest::collection::vec(".{0,300}", 0..20),
            tokens in any::<u64>(),
        ) {
            let context = names.iter().map(|n| (n.clone(), tokens)).collect();
            let told = Reading { warm: Some(names.clone()), models: Some(names.clone()), slots: None, context };
            let (entries, left_out) = models(&told);
            prop_assert!(sizes::models(&entries).is_ok());
            prop_assert_eq!(entries.len() + left_out, names.len());
        }
    }
}
