//! Providers of the file, as the daemon follows it.

use crate::support::ask_until;
use crate::support::daemon::{Standalone, World};

fn entry(name: &str, more: &str) -> String {
    format!(
        "[[providers]]\nname = \"{name}\"\nbase_url = \"https://{name}.example/v1\"\n\
         api_key = \"canary-{name}\"\n{more}"
    )
}

fn names(world: &World) -> Vec<String> {
    let told = world.json(&["providers"]);
    assert_eq!(world.json(&["status"])["providers"], told["providers"]);
    let all = told["providers"].as_array().unwrap();
    let name = |p: &serde_json::Value| p["name"].as_str().unwrap().to_owned();
    all.iter().map(name).collect()
}

#[test]
fn a_start_and_each_reload_take_providers_in_and_out() {
    let world = World::new();
    let text = |entries: &[String]| format!("[gateway]\n{}", entries.concat());
    let (a, b) = (entry("a", "tier = 1\n"), entry("b", "models = [\"m\"]\n"));
    let path = world.file("nvpair.toml", &text(&[a.clone(), b.clone()]));
    let daemon = Standalone::start(&world, &["--config", path.to_str().unwrap()]);
    assert_eq!(names(&world), ["a", "b"]);
    let told = world.json(&["providers"]);
    let [a_told, b_told] = [0, 1].map(|n| &told["providers"][n]);
    assert_eq!(
        (&a_told["standing"], &b_told["standing"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        (&a_told["state"], &b_told["models"][0]),
        (&"ready".into(), &"m".into())
    );
    assert!(!told.to_string().contains("canary"), "{told}");

    for (entries, want) in [
        (vec![b.clone(), entry("c", "")], vec!["b", "c"]),
        // One that is wrong changes nothing.
        (vec![a.clone(), entry("x", "tier = -1\n")], vec!["b", "c"]),
        (vec![], vec![]),
        (vec![a], vec!["a"]),
    ] {
        std::fs::write(&path, text(&entries)).unwrap();
        let said = world.run(&["config", "reload", "--json"]);
        let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        if told["applied"] == true {
            assert_eq!(told["changed"], serde_json::json!(["providers"]), "{told}");
            assert_eq!(told["restart"], serde_json::json!([]), "{told}");
        }
        ask_until("the providers", || (names(&world) == want).then_some(()));
    }
    let said = world.run(&["status"]);
    assert!(said.out.contains("\nProviders\n"), "{}", said.out);
    drop(daemon);
}

#[test]
fn without_providers_it_is_said_how_to_name_one() {
    let world = World::new();
    let _daemon = Standalone::start(&world, &[]);
    let said = world.run(&["providers"]);
    assert_eq!(said.code, 0);
    assert!(said.out.contains("[[providers]]"), "{}", said.out);
    let said = world.run(&["status"]);
    assert!(!said.out.contains("Providers"), "{}", said.out);
}
