//! The command as a person or a script meets it: the real binary, in a home of its own, against a
//! daemon that is absent or faked in this process behind the real control socket.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

mod absent;
mod completions;
mod config;
mod demo;
mod doctor;
mod healthcheck;
mod live;
mod models;
mod nodes;
mod providers;
mod replay;
mod route;
mod schema;
mod select;
mod set_port;
mod status;
mod terminal;
mod usage;
mod versions;
mod workloads;
mod world;
