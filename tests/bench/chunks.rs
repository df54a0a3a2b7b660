//! What the request path adds to a chunk of a stream, in memory: `cargo bench --bench chunks`.
//!
//! Three relays between the same pipes, a read a chunk, in turns: one that only copies; one that
//! copies and keeps the dispatch guarantee's part of it (commit gate, claim, both watchers, stats);
//! and the whole express lane. Processor time of the one thread, the calmest round of each. Ends
//! with 1 if the guarantee's part is over its limit.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a measurement prints, and fails where something is wrong; it needs a part of the world"
)]

#[path = "../paused/world.rs"]
mod world;

use std::future::poll_fn;
use std::process::ExitCode;
use std::time::Duration;

use bytes::BytesMut;
use nvpair_proxy::facade::Facade;
use nvpair_proxy::net::buffers::READ;
use nvpair_proxy::net::sockets::poll_read_into;
use nvpair_proxy::net::stream::Stream;
use nvpair_proxy::rules::gate::{Gate, GateMode, Verdict};
use nvpair_proxy::rules::usage::{Tap, TapKind};
use nvpair_proxy::state::fate::Fate;
use nvpair_proxy::state::settings::RequestSettings;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use crate::world::{Lane, Step, World, chunk, last_chunk, stream_head};

/// What the guarantee may add to a chunk.
const LIMIT_US: f64 = 0.3;

/// Streams of so many chunks, as a short answer has.
const CHUNKS: usize = 64;
const STREAMS: usize = 200;
const ROUNDS: usize = 100;

/// One event of about 130 bytes, as an OpenAI stream has them.
fn event() -> String {
    let padding = "x".repeat(24);
    format!(
        "data: {{\"id\":\"chatcmpl-{padding}\",\"object\":\"chat.completion.chunk\",\"choices\":\
         [{{\"index\":0,\"delta\":{{\"content\":\" word\"}}}}]}}\n\n"
    )
}

/// Processor time of this thread, or the time of day where that is not told.
fn spent(begun: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = told.and_then(|t| t.split(' ').next()?.parse().ok());
    ns.map_or_else(|| begun.elapsed(), Duration::from_nanos)
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut BytesMut) -> usize {
    let read = poll_fn(|cx| poll_read_into(stream, buffer, READ, cx)).await;
    read.unwrap_or(0)
}

/// Asks an engine as a relay would.
async fn engine(world: &World) -> Stream {
    let mut stream = world.network.connect("192.0.2.1", 1).await.unwrap();
    let body = br#"{"model":"m","stream":true}"#;
    stream.write_all(b"POST / HTTP/1.1\r\n\r\n").await.unwrap();
    stream.write_all(body).await.unwrap();
    stream
}

/// Copies, a read at a time.
async fn plain(mut from: Stream, mut to: Stream) {
    let mut buffer = BytesMut::new();
    while read(&mut from, &mut buffer).await > 0 {
        to.write_all(&buffer).await.unwrap();
        buffer.clear();
    }
}

/// Copies, and does what the guarantee asks for on the way.
async fn guarded(facade: Facade, mut from: Stream, mut to: Stream) {
    let (arrived, fate) = (Instant::now(), Fate::default());
    let mut buffer = BytesMut::new();
    let mut from_client = BytesMut::new();
    let mut gate = Gate::for_response(Some(b"text/event-stream"), GateMode::Framing);
    let mut tap = Tap::new(TapKind::for_response(Some(b"text/event-stream"), None));
    let mut changes = facade.state.changes();
    let mut committed = false;
    loop {
        let n = if committed {
            tokio::select! {
                biased;
                n = read(&mut from, &mut buffer) => n,
                _ = read(&mut to, &mut from_client) => return,
            }
        } else {
            tokio::select! {
                biased;
                n = read(&mut from, &mut buffer) => n,
                _ = changes.changed() => return,
            }
        };
        if n == 0 {
            assert!(tap.finish(0).is_some_and(|s| s.completion_tokens > Some(0)));
            return;
        }
        let is_head = buffer.starts_with(b"HTTP");
        if !committed && !is_head && gate.push(&buffer) == Verdict::Commit {
            assert!(fate.commit().is_some());
            committed = true;
        }
        if !is_head {
            tap.push(&buffer, arrived.elapsed().as_micros() as u64);
        }
        to.write_all(&buffer).await.unwrap();
        buffer.clear();
    }
}

/// Reads a stream to its last chunk.
async fn drain(mut client: DuplexStream) {
    let mut buffer = BytesMut::new();
    loop {
        let n = read(&mut client, &mut buffer).await;
        if n == 0 || buffer.ends_with(b"\r\n0\r\n\r\n") || buffer.ends_with(b"0\r\n\r\n") {
            assert!(n > 0, "the end came before the last chunk");
            return;
        }
        buffer.clear();
    }
}

#[derive(Clone, Copy)]
enum Relay {
    Plain,
    Guarded,
    Express,
}

async fn streams(world: &World, pipe: usize, relay: Relay) -> f64 {
    let begun = Instant::now();
    let before = spent(begun);
    for _ in 0..STREAMS {
        if let Relay::Express = relay {
            drain(world.ask().await).await;
            continue;
        }
        let (client, server) = duplex(pipe);
        let (from, to) = (engine(world).await, server.into());
        match relay {
            Relay::Plain => drop(tokio::spawn(plain(from, to))),
            _ => drop(tokio::spawn(guarded(world.facade.clone(), from, to))),
        }
        drain(client).await;
    }
    let took = spent(begun) - before;
    took.as_nanos() as f64 / 1e3 / (STREAMS * CHUNKS) as f64
}

fn main() -> ExitCode {
    let event = event();
    let body = std::iter::repeat_n(chunk(&event), CHUNKS);
    let script: Vec<Step> = [stream_head()]
        .into_iter()
        .chain(body)
        .chain([last_chunk()])
        .collect();
    // A chunk fills the pipe, so that each takes a read and a write of its own.
    let pipe = event.len() + 6;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let best = runtime.enable_all().build().unwrap().block_on(async {
        let settings = RequestSettings::default();
        let world = World::piped(pipe, Lane::Express, settings, vec![(1, vec![script])]);
        let mut best = [f64::MAX; 3];
        for _ in 0..ROUNDS {
            for (best, relay) in best
                .iter_mut()
                .zip([Relay::Plain, Relay::Guarded, Relay::Express])
            {
                *best = best.min(streams(&world, pipe, relay).await);
            }
        }
        best
    });
    let [plain, guarded, express] = best;
    let added = guarded - plain;
    println!("| relay | µs a chunk | to plain | more than plain |");
    println!("|---|---:|---:|---:|");
    for (name, us) in [
        ("plain", plain),
        ("gate, claim, watchers, stats", guarded),
        ("express lane", express),
    ] {
        println!(
            "| {name} | {us:.3} | {:.2} | {:.3} |",
            us / plain,
            us - plain
        );
    }
    println!("the guarantee adds {added:.3} µs a chunk; the limit is {LIMIT_US} µs");
    ExitCode::from(u8::from(added > LIMIT_US))
}
