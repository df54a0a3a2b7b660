//! nvpair-proxy as a library: the map. The binary is in `cmd/`, the only code that prints.
//!
//! # Modules by layer
//!
//! A module uses lower layers only, never a sibling; `tests/layers.rs` enforces this table.
//! Decisions are pure and live in [`rules`]; everything else carries bytes to and from them.
//!
//! | layer | module | what it is | may use |
//! |---|---|---|---|
//! | 0 | [`rules`] | the decisions: no clock, random, lock, socket, file, async | nothing |
//! | 0 | [`sync`] | the locks of `state` under one name, so that a test can instrument them | nothing |
//! | 0 | [`wall_clock`] | what time it is | nothing; from layer 2 on anybody may ask |
//! | 1 | [`wire`] | shapes of what is sent and received | `rules` |
//! | 2 | [`config`] | files, flags and environment to valid values | `rules`, `wire` |
//! | 2 | [`store`] | what outlives the process, or is shared with others | `rules`, `wire` |
//! | 2 | [`net`] | bytes in and out | `rules`, `wire` |
//! | 2 | [`telemetry`] | the log, spans, measurements | `rules`, `wire` |
//! | 3 | [`state`] | the only locks; commands, queries and events | `rules`, `sync`, `wire`, `config`, `store` |
//! | 4 | [`demo`] | sample engines | up to `state` |
//! | 4 | [`replay`] | recorded workloads again, dry or sent | up to `state` |
//! | 5 | [`facade`] | the path of a request | `rules`, `wire`, `net`, `telemetry`, `state` |
//! | 6 | [`control`] | the local socket | `rules`, `wire`, `net`, `state` |
//! | 6 | [`broker`] | the link to a parent | `rules`, `wire`, `net`, `state` |
//! | 6 | [`registry`] | where pool nodes register themselves | `rules`, `wire`, `net`, `state` |
//! | 6 | [`agent`] | speaks for an engine to a registry, from its own machine | `rules`, `wire`, `net` |
//! | 6 | [`export`] | telemetry to a collector and on the admin listener | `rules`, `wire`, `net`, `telemetry`, `state` |
//! | 6 | [`director`] | the driver where there is no parent | the same and `config` |
//! | 7 | [`daemon`] | builds the parts and joins them | all |
//! | 7 | [`doctor`] | looks at this machine for what may be wrong | all but `daemon` |
//! | 8 | `cmd/` | one file a subcommand | `rules`, `wire`, `config`, `wall_clock`, `control::client`; see below |
//!
//! Those of layer 6 can ask (by a command, or the pool by [`state::fleet`]) but not act. The
//! director also reads settings: it is who turns them into commands. In `cmd/`, only `serve.rs` may
//! use `daemon`, `state` and `telemetry`, only `demo_engine.rs` may use `demo`, only `doctor.rs`
//! may use `doctor`, and only `agent.rs` may use `agent` and what it is given (`net`, `telemetry`).
//!
//! # One request
//!
//! 1. `daemon::supervisor` accepts a connection from [`net::listen`] and hands it to
//!    [`facade::accept`] (`facade::server`), which puts up a panic fence around each request.
//! 2. [`rules::ingress`] checks the door, [`rules::route`] says what the request is, and
//!    `facade::keyed` takes a client's key out ([`state::clients`], [`rules::client_key`]). A model
//!    list goes to `facade::inventory`, a preflight to `facade::preflight`; the rest goes on.
//! 3. Two lanes carry the rest. `facade::express` takes a strictly plain `POST` to an inference
//!    route as bytes ([`net::h1`], [`net::sockets`]); everything else goes through the HTTP library
//!    (`facade::exchange`, `facade::attempt`, `facade::relay`, [`net::upstream`]). A lane reads the
//!    body, finds the model in it ([`rules::model_scan`]), sends one attempt, streams one answer.
//! 4. Both are driven by `facade::round`, which does what [`rules::dispatch`] says: look the
//!    candidates up ([`state::facade`], [`rules::candidates`]), order them ([`rules::policy`]),
//!    reserve one ([`state::scheduler`]), send, wait, or answer. A node of the pool takes a request
//!    under a lease only ([`state::pool`]).
//! 5. An attempt ends when [`rules::gate`] sees content. A loss goes back to `dispatch`: another
//!    node, a wait, or the answer.
//! 6. Content commits: the lane streams, [`rules::usage`] reads the counts. Whatever happens,
//!    `facade::report` sends one last event, also when it is dropped.
//!
//! On the gateway a request goes along a chain ([`rules::gateway`]): `state::chain` gathers candidates
//! from what is known of every engine, then [`state::providers`]; `facade::gateway` answers the rest.
//!
//! A peer's request comes over TLS ([`net::tls`], [`net::members`]) and takes another way:
//! `facade::ingress` checks its certificate and hands it to this machine's engine.
//!
//! # One control call
//!
//! 1. `cmd/set_port.rs` connects (`cmd/connect.rs`) and calls through [`control::client`].
//! 2. [`control::socket`] admits the caller, `control::door` names the engine, `control::server`
//!    sends a [`state::command::Command`] and waits for its answer. The broker's link and the
//!    director send the same commands.
//! 3. `daemon::commands` is their only reader: it decides with [`rules::port`], moves the listener
//!    (`daemon::supervisor`), saves ([`store::ports`]) and emits what follows ([`state::events`]).
//! 4. A read does not queue: [`state::query`] answers at once. `workloads --follow` subscribes to
//!    [`state::follow`]; what ended goes to [`store::journal`], and from there through
//!    [`state::replays`] to [`replay`].
//!
//! # One pool node
//!
//! 1. A worker ([`agent`], or curl) registers and beats at [`registry`], which checks its key and the
//!    address that will be dialled ([`rules::pool`]).
//! 2. [`store::pool`] keeps records, leases, breakers and speeds, in memory or in a Redis that several
//!    gateways share; each change is one atomic step there.
//! 3. [`state::pool`] follows it and tells every facade its nodes. From there a pool node is a
//!    candidate like any other; an attempt's end gives its lease back with what was learnt.
//!
//! # One span
//!
//! 1. `facade::report` is told when a request arrives, an attempt begins, is lost or is the answer, and
//!    when it all ends; where telemetry is off ([`telemetry::hub`]) that is one look.
//! 2. [`telemetry::request`] takes the caller's trace over ([`rules::trace_context`]), gives both lanes
//!    the header for the next target, and at an end counts ([`telemetry::metrics`]) and offers a span to
//!    a bounded queue ([`telemetry::spans`]): without room it is never made.
//! 3. [`export`] takes spans out of the queue and sends them; `/metrics` and the collector get the same
//!    reading of the instruments and the state.
//!
//! # One provider
//!
//! 1. `daemon` hands the settings' providers to [`state::providers`], at the start and after each
//!    reload. There each has a standing, by which it is chosen, rests and is tried again
//!    ([`rules::provider`]).
//! 2. A request on one has a permit, and whatever way it ends the permit comes back.
//!    [`net::upstream`] dials a provider beyond this network by [`net::outside`].
//!
//! # One reload
//!
//! 1. `daemon::reload` is told by SIGHUP, by `config/reload` or by a look at the file. It reads all of
//!    it ([`config::settings`]); with one error nothing happens.
//! 2. [`config::change`] says what differs. Values of requests are swapped by a command
//!    ([`state::settings`]); the director brings facades and nodes in and out by the same commands as
//!    ever (`director::adapt`).
//! 3. Whoever follows the settings holds the watch that `daemon` makes of them.

pub mod agent;
pub mod broker;
pub mod config;
pub mod control;
pub mod daemon;
pub mod demo;
pub mod director;
pub mod doctor;
pub mod export;
pub mod facade;
pub mod net;
pub mod registry;
pub mod replay;
pub mod rules;
pub mod state;
pub mod store;
pub mod sync;
pub mod telemetry;
pub mod wall_clock;
pub mod wire;
