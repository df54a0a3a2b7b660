//! Closed- and open-loop HTTP/1.1 load generator for inference proxies.
//!
//! Checks every answer (status, framing, number of tokens, end marker) and reads the CPU
//! time and resident memory of the watched processes around the measured window.

mod answer;
mod client;

use answer::Tally;
use benchkit::{die, mono_ns, proc_use, quantile, raise_nofile, rss_kb, tree, Args, ProcUse};
use client::{connect, exchange, worker, Job, Pace};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn build_body(
    api: &str,
    model: &str,
    size: usize,
    inputs: usize,
    model_last: bool,
) -> (String, &'static str, bool, Vec<u8>) {
    let filler = |n: usize| {
        "lorem ipsum dolor "
            .chars()
            .cycle()
            .take(n)
            .collect::<String>()
    };
    let (path, streaming) = match api {
        "openai-chat" => ("/v1/chat/completions", false),
        "openai-chat-stream" => ("/v1/chat/completions", true),
        "openai-text" => ("/v1/completions", false),
        "openai-text-stream" => ("/v1/completions", true),
        "ollama-chat" => ("/api/chat", false),
        "ollama-chat-stream" => ("/api/chat", true),
        "ollama-generate" => ("/api/generate", false),
        "ollama-generate-stream" => ("/api/generate", true),
        "openai-embed" => ("/v1/embeddings", false),
        "ollama-embed" => ("/api/embed", false),
        "get" => ("/v1/models", false),
        _ => die(&format!("unknown --api {api}")),
    };
    if api == "get" {
        return (path.into(), "GET", false, Vec::new());
    }
    let make = |text: &str| -> String {
        let payload = if path.contains("chat") {
            format!("\"messages\":[{{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"}},{{\"role\":\"user\",\"content\":\"{text}\"}}]")
        } else if path.contains("embed") {
            let one = format!("\"{}\"", filler(40));
            format!("\"input\":[{}]", vec![one; inputs].join(","))
        } else {
            format!("\"prompt\":\"{text}\"")
        };
        let stream = if path.contains("embed") {
            String::new()
        } else if streaming && path.starts_with("/v1") {
            ",\"stream\":true,\"stream_options\":{\"include_usage\":true}".to_string()
        } else {
            format!(",\"stream\":{streaming}")
        };
        if model_last {
            format!("{{{payload}{stream},\"model\":\"{model}\"}}")
        } else {
            format!("{{\"model\":\"{model}\",{payload}{stream}}}")
        }
    };
    let base = make("").len();
    let body = make(&filler(size.saturating_sub(base)));
    (path.into(), "POST", streaming, body.into_bytes())
}

fn pct(v: &mut [u64]) -> serde_json::Value {
    v.sort_unstable();
    let us = |q| quantile(v, q) as f64 / 1000.0;
    serde_json::json!({
        "n": v.len(), "p50_us": us(0.5), "p90_us": us(0.9), "p99_us": us(0.99), "p999_us": us(0.999),
        "max_us": v.last().copied().unwrap_or(0) as f64 / 1000.0,
        "mean_us": if v.is_empty() { 0.0 } else { v.iter().sum::<u64>() as f64 / v.len() as f64 / 1000.0 },
    })
}

fn main() {
    let a = Args::parse(
        &[
            "url",
            "api",
            "model",
            "conns",
            "duration",
            "warmup",
            "requests",
            "rate",
            "body-bytes",
            "inputs",
            "expect-chunks",
            "expect-bytes",
            "pid",
            "timeout-ms",
            "header",
            "ramp-ms",
            "idle-conns",
            "idle-secs",
            "body-file",
            "path",
        ],
        &["json", "tree", "close", "model-last", "lenient", "once"],
    );
    raise_nofile();
    let url = a
        .get("url")
        .unwrap_or_else(|| die("--url http://127.0.0.1:PORT[/path] is needed"));
    let rest = url
        .strip_prefix("http://")
        .unwrap_or_else(|| die("--url: only http://"));
    let (hostport, url_path) = match rest.find('/') {
        Some(i) => (&rest[..i], Some(rest[i..].to_string())),
        None => (rest, None),
    };
    let addr: std::net::SocketAddr = hostport
        .replace("localhost", "127.0.0.1")
        .parse()
        .unwrap_or_else(|_| die("--url: bad address"));
    if !addr.ip().is_loopback() {
        die("--url must be a loopback address: this tool loads only servers on this machine");
    }
    let api = a.get("api").unwrap_or("openai-chat");
    let (path, method, streaming, mut body) = build_body(
        api,
        a.get("model").unwrap_or("m1"),
        a.num("body-bytes", 400),
        a.num("inputs", 64),
        a.has("model-last"),
    );
    if let Some(f) = a.get("body-file") {
        body = std::fs::read(f).unwrap_or_else(|e| die(&format!("{f}: {e}")));
    }
    let path = a
        .get("path")
        .map(|s| s.to_string())
        .or(url_path.filter(|p| p != "/"))
        .unwrap_or(path);
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {hostport}\r\nUser-Agent: loadgen/0.1\r\nAccept: */*\r\n").into_bytes();
    for h in a.all("header") {
        request.extend_from_slice(h.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    if a.has("close") {
        request.extend_from_slice(b"Connection: close\r\n");
    }
    if method == "POST" {
        request.extend_from_slice(
            format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            )
            .as_bytes(),
        );
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(&body);
    let job = Rc::new(Job {
        addr,
        request,
        streaming,
        expect_chunks: a.num("expect-chunks", 64),
        expect_bytes: a
            .get("expect-bytes")
            .map(|s| s.parse().unwrap_or_else(|_| die("--expect-bytes"))),
        timeout: Duration::from_millis(a.num("timeout-ms", 30_000)),
        close: a.has("close"),
        lenient: a.has("lenient"),
    });
    let roots: Vec<u32> = a
        .all("pid")
        .iter()
        .map(|s| s.parse().unwrap_or_else(|_| die("--pid")))
        .collect();
    let with_tree = a.has("tree");
    let pids = move || -> Vec<u32> {
        if with_tree {
            let mut v: Vec<u32> = roots.iter().flat_map(|&p| tree(p)).collect();
            v.sort_unstable();
            v.dedup();
            v
        } else {
            roots.clone()
        }
    };
    let conns: usize = a.num("conns", 1);
    let warmup = Duration::from_secs_f64(a.num("warmup", 0.5));
    let duration = Duration::from_secs_f64(a.num("duration", 3.0));
    let requests: Option<u64> = a
        .get("requests")
        .map(|s| s.parse().unwrap_or_else(|_| die("--requests")));
    let rate: f64 = a.num("rate", 0.0);
    let ramp = Duration::from_millis(a.num("ramp-ms", 0));
    let idle: usize = a.num("idle-conns", 0);
    let idle_secs: f64 = a.num("idle-secs", 1.5);

    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap_or_else(|e| die(&e.to_string()));
    let local = tokio::task::LocalSet::new();
    let t = Rc::new(Tally::default());
    let rss_before = rss_kb(&pids());
    let use_start = proc_use(&pids());

    if idle > 0 {
        let out = local.block_on(&rt, idle_run(job, t, idle, idle_secs, pids, rss_before));
        println!("{out}");
        return;
    }

    let (u0, u1, wall, peak, self_cpu) = local.block_on(&rt, async {
        let pace = Rc::new(Pace {
            gap_ns: (rate > 0.0).then(|| 1e9 / rate),
            start: mono_ns(),
            next: Cell::new(0),
            limit: requests,
        });
        let mut hs = Vec::new();
        if requests.is_some() {
            t.on.set(true);
        }
        for i in 0..conns {
            let d = ramp.mul_f64(i as f64 / conns.max(1) as f64);
            hs.push(tokio::task::spawn_local(worker(
                job.clone(),
                t.clone(),
                pace.clone(),
                d,
            )));
        }
        let peak = Rc::new(Cell::new(rss_before));
        let sampler = {
            let (peak, pids) = (peak.clone(), pids());
            tokio::task::spawn_local(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    peak.set(peak.get().max(rss_kb(&pids)));
                }
            })
        };
        let me = [std::process::id()];
        let (u0, w0, s0, u1);
        if requests.is_some() {
            u0 = use_start;
            s0 = proc_use(&me);
            w0 = mono_ns();
            for h in hs {
                let _ = h.await;
            }
            u1 = proc_use(&pids());
        } else {
            tokio::time::sleep(ramp + warmup).await;
            let p = pids();
            u0 = proc_use(&p);
            s0 = proc_use(&me);
            w0 = mono_ns();
            t.on.set(true);
            tokio::time::sleep(duration).await;
            t.on.set(false);
            u1 = proc_use(&p);
        }
        let wall = mono_ns() - w0;
        t.on.set(false);
        t.stop.set(true);
        sampler.abort();
        let s1 = proc_use(&me);
        (
            u0,
            u1,
            wall,
            peak.get(),
            s1.cpu_ns.saturating_sub(s0.cpu_ns),
        )
    });
    report(
        &t,
        api,
        conns,
        rate,
        u0,
        u1,
        wall,
        rss_before,
        peak,
        self_cpu,
        a.has("json"),
    );
    benchkit::leave(); // open streams are left to the kernel
}

#[allow(clippy::too_many_arguments)]
fn report(
    t: &Tally,
    api: &str,
    conns: usize,
    rate: f64,
    u0: ProcUse,
    u1: ProcUse,
    wall: u64,
    rss_before: u64,
    peak: u64,
    self_cpu: u64,
    json: bool,
) {
    let secs = wall as f64 / 1e9;
    let cpu = u1.cpu_ns.saturating_sub(u0.cpu_ns) as f64 / 1000.0;
    let (done, chunks) = (t.done.get(), t.chunks.get());
    let per = |n: u64| if n > 0 { cpu / n as f64 } else { 0.0 };
    let errs = t.errors.borrow();
    let nerr: u64 = errs.values().sum();
    let v = serde_json::json!({
        "api": api, "conns": conns, "rate": rate, "seconds": secs,
        "requests": done, "rps": done as f64 / secs, "errors": nerr, "errors_by_kind": *errs,
        "chunks": chunks, "chunks_per_s": chunks as f64 / secs,
        "bytes": t.bytes.get(), "reads": t.reads.get(), "connects": t.connects.get(),
        "ttfb": pct(&mut t.ttfb.borrow_mut()), "first_token": pct(&mut t.first_token.borrow_mut()),
        "total": pct(&mut t.total.borrow_mut()), "transit": pct(&mut t.transit.borrow_mut()),
        "proc": {
            "cpu_us": cpu, "cpu_share": cpu / 1e6 / secs, "us_per_request": per(done), "us_per_chunk": per(chunks),
            "user_us": u1.user_ns.saturating_sub(u0.user_ns) as f64 / 1000.0, "sys_us": u1.sys_ns.saturating_sub(u0.sys_ns) as f64 / 1000.0,
            "ctxt_switches": u1.ctxt.saturating_sub(u0.ctxt), "processes": u1.procs,
            "rss_before_kb": rss_before, "rss_peak_kb": peak, "rss_after_kb": u1.rss_kb, "rss_hwm_kb": u1.hwm_kb,
        },
        "loadgen_cpu_share": self_cpu as f64 / 1e9 / secs,
    });
    if json {
        println!("{v}");
        return;
    }
    println!("{api}: {conns} connections, {secs:.2} s: {done} requests ({:.0}/s), {chunks} chunks ({:.0}/s), {nerr} errors {:?}", done as f64 / secs, chunks as f64 / secs, *errs);
    for k in ["ttfb", "first_token", "total", "transit"] {
        let p = &v[k];
        if p["n"].as_u64().unwrap_or(0) > 0 {
            println!(
                "  {k:<12} p50 {:>9.1}  p90 {:>9.1}  p99 {:>9.1}  p99.9 {:>9.1} us",
                p["p50_us"].as_f64().unwrap_or(0.0),
                p["p90_us"].as_f64().unwrap_or(0.0),
                p["p99_us"].as_f64().unwrap_or(0.0),
                p["p999_us"].as_f64().unwrap_or(0.0)
            );
        }
    }
    if u1.procs > 0 {
        println!(
            "  cpu {:.1} us/request, {:.2} us/chunk, {:.0}% of a core; rss {} -> peak {} KiB",
            per(done),
            per(chunks),
            cpu / 1e4 / secs,
            rss_before,
            peak
        );
    }
    println!(
        "  (load generator itself: {:.0}% of a core)",
        self_cpu as f64 / 1e7 / secs
    );
}

/// Opens `n` connections, sends one request on each, then leaves them idle.
async fn idle_run(
    job: Rc<Job>,
    t: Rc<Tally>,
    n: usize,
    secs: f64,
    pids: impl Fn() -> Vec<u32>,
    rss_before: u64,
) -> serde_json::Value {
    let mut buf = vec![0u8; 65536];
    let mut head = Vec::new();
    // The first requests fill the proxy's own pools and caches, outside the reading.
    for _ in 0..8 {
        if let Some(mut s) = connect(&job, &t).await {
            let _ = tokio::time::timeout(
                job.timeout,
                exchange(&mut s, &mut buf, &mut head, &job, &t, mono_ns()),
            )
            .await;
        }
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let p = pids();
    let base = rss_kb(&p);
    t.on.set(true);
    let mut open = Vec::with_capacity(n);
    for _ in 0..n {
        let Some(mut s) = connect(&job, &t).await else {
            continue;
        };
        match tokio::time::timeout(
            job.timeout,
            exchange(&mut s, &mut buf, &mut head, &job, &t, mono_ns()),
        )
        .await
        {
            Ok(Ok(true)) => open.push(s),
            Ok(Ok(false)) => t.error("not_kept_alive"),
            Ok(Err(k)) => t.error(&k),
            Err(_) => t.error("timeout"),
        }
    }
    tokio::time::sleep(Duration::from_secs_f64(secs)).await;
    let held = rss_kb(&p);
    let c0 = proc_use(&p);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let c1 = proc_use(&p);
    let mut alive = 0;
    for s in &open {
        let mut b = [0u8; 1];
        match s.try_read(&mut b) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => alive += 1,
            _ => {},
        }
    }
    let errors = t.errors.borrow().clone();
    serde_json::json!({
        "api": "idle", "asked": n, "opened": open.len(), "alive": alive, "errors_by_kind": errors,
        "rss_before_kb": rss_before, "rss_base_kb": base, "rss_held_kb": held,
        "kb_per_conn": if open.is_empty() { 0.0 } else { (held as f64 - base as f64) / open.len() as f64 },
        "idle_cpu_us_per_s": (c1.cpu_ns.saturating_sub(c0.cpu_ns)) as f64 / 1000.0,
    })
}
