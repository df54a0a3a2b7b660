//! completions/ and man/ are what the binary would write now. `UPDATE_GENERATED=1` rewrites them.

use std::process::Command;

#[test]
fn completions_and_man_pages_are_fresh() {
    let root = env!("CARGO_MANIFEST_DIR");
    let update = std::env::var_os("UPDATE_GENERATED").is_some();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvpair-proxy"));
    command.arg("generate");
    if !update {
        command.arg("--check");
    }
    let output = command.arg(root).output().expect("the binary runs");
    assert!(
        output.status.success(),
        "{}run this test with UPDATE_GENERATED=1",
        String::from_utf8_lossy(&output.stderr)
    );
}
