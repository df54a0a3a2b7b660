//! The scripts, each behind the prelude that they share.
//!
//! Owns: their text and its hash. Leaves to others: their arguments, which each names at its top.

use std::sync::LazyLock;

/// A script that Redis knows by its hash.
pub(super) type Script = LazyLock<::redis::Script>;

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(super) static $name: Script = LazyLock::new(|| {
            ::redis::Script::new(concat!(
                include_str!("scripts/prelude.lua"),
                include_str!(concat!("scripts/", $file, ".lua"))
            ))
        });
    };
}

script!(ACQUIRE, "acquire");
script!(BEAT, "beat");
script!(CHANGES, "changes");
script!(DRAIN, "drain");
script!(KEYS, "keys");
script!(LEAVE, "leave");
script!(PUT_KEY, "put_key");
script!(REGISTER, "register");
script!(REMOVE, "remove");
script!(RENEW, "renew");
script!(RESET, "reset");
script!(REVOKE_KEY, "revoke_key");
script!(SETTLE, "settle");
