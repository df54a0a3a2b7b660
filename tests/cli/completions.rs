//! `completions` and `generate`.

use crate::world::World;

#[test]
fn every_shell_has_a_script_without_any_daemon() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = world.run(&["completions", shell]);
        assert_eq!(said.code, 0, "{shell}: {}", said.err);
        assert!(said.out.contains("set-port"), "{shell}");
        assert!(said.out.contains("socket"), "{shell}");
        for hidden in ["demo-engine", "generate"] {
            assert!(!said.out.contains(hidden), "{shell}: {hidden}");
        }
    }
    assert_eq!(world.run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn generate_writes_the_same_twice_and_check_finds_a_changed_file() {
    let world = World::new();
    let dir = world.path().to_str().unwrap();
    assert_eq!(world.run(&["generate", "--check", dir]).code, 1);
    assert_eq!(world.run(&["generate", dir]).code, 0);
    assert_eq!(world.run(&["generate", "--check", dir]).code, 0);
    std::fs::write(world.path().join("man/stray.1"), "").unwrap();
    let said = world.run(&["generate", "--check", dir]);
    assert_eq!(said.code, 1);
    assert_eq!(said.err, "error: out of date: man/stray.1\n");
    assert_eq!(world.run(&["generate", dir]).code, 0);
    assert_eq!(world.run(&["generate", "--check", dir]).code, 0);
}
