//! Connections that ask again and again, at once or by a schedule.

use super::answer::{feed_body, parse_head, Framing, Head, Scan, Tally};
use benchkit::mono_ns;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Job {
    pub addr: std::net::SocketAddr,
    pub request: Vec<u8>,
    pub streaming: bool,
    pub expect_chunks: u64,
    pub expect_bytes: Option<u64>,
    pub timeout: Duration,
    pub close: bool,
    pub lenient: bool,
}

/// One request on `s`. Ok(keep): whether the connection can carry another.
pub async fn exchange(
    s: &mut TcpStream,
    buf: &mut [u8],
    head: &mut Vec<u8>,
    job: &Job,
    t: &Tally,
    t0: u64,
) -> Result<bool, String> {
    s.write_all(&job.request)
        .await
        .map_err(|e| format!("write_{:?}", e.kind()))?;
    head.clear();
    let mut got_head: Option<Head> = None;
    let mut scan = Scan::default();
    let mut ttfb = 0u64;
    let mut first_token = 0u64;
    loop {
        let n = s
            .read(buf)
            .await
            .map_err(|e| format!("read_{:?}", e.kind()))?;
        let now = mono_ns();
        t.add(&t.reads, 1);
        t.add(&t.bytes, n as u64);
        if n == 0 {
            match &got_head {
                None => return Err("eof_before_answer".into()),
                Some(Head {
                    framing: Framing::Eof,
                    ..
                }) => break,
                Some(_) => return Err("truncated".into()),
            }
        }
        if ttfb == 0 {
            ttfb = now;
        }
        let mut complete = false;
        if let Some(h) = got_head.as_mut() {
            complete = feed_body(&mut h.framing, &buf[..n], &mut scan, job.streaming, now, t)?;
        } else {
            let whole: &[u8] = if head.is_empty() {
                &buf[..n]
            } else {
                head.extend_from_slice(&buf[..n]);
                &head[..]
            };
            match parse_head(whole)? {
                None => {
                    if head.is_empty() {
                        head.extend_from_slice(&buf[..n]);
                    }
                    continue;
                },
                Some(mut h) => {
                    let rest = &whole[h.len..];
                    if matches!(h.framing, Framing::Length(0)) {
                        complete = true;
                    } else if !rest.is_empty() {
                        complete =
                            feed_body(&mut h.framing, rest, &mut scan, job.streaming, now, t)?;
                    }
                    got_head = Some(h);
                },
            }
        }
        if first_token == 0 && scan.stamps > 0 {
            first_token = now;
        }
        if complete {
            break;
        }
    }
    let end = mono_ns();
    let h = got_head.ok_or("bad_http")?;
    if h.status != 200 {
        t.error(&format!("status_{}", h.status));
        return Ok(h.keep);
    }
    if job.streaming && !job.lenient {
        if scan.stamps != job.expect_chunks {
            t.error("wrong_chunk_count");
            return Ok(h.keep);
        }
        if !scan.has_end_marker() {
            t.error("no_end_marker");
            return Ok(h.keep);
        }
    } else if job.expect_bytes.is_some_and(|n| n != scan.bytes) {
        t.error("wrong_length");
        return Ok(h.keep);
    } else if !job.lenient
        && !scan.tail.trim_ascii_end().ends_with(b"}")
        && !scan.tail.trim_ascii_end().ends_with(b"]")
    {
        t.error("not_json");
        return Ok(h.keep);
    }
    if t.on.get() {
        t.done.set(t.done.get() + 1);
        t.ttfb.borrow_mut().push(ttfb.saturating_sub(t0));
        t.total.borrow_mut().push(end.saturating_sub(t0));
        if first_token > 0 {
            t.first_token
                .borrow_mut()
                .push(first_token.saturating_sub(t0));
        }
    }
    Ok(h.keep && !job.close)
}

pub async fn connect(job: &Job, t: &Tally) -> Option<TcpStream> {
    match tokio::time::timeout(job.timeout, TcpStream::connect(job.addr)).await {
        Ok(Ok(s)) => {
            let _ = s.set_nodelay(true);
            t.add(&t.connects, 1);
            Some(s)
        },
        Ok(Err(e)) => {
            t.error(&format!("connect_{:?}", e.kind()));
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        },
        Err(_) => {
            t.error("connect_timeout");
            None
        },
    }
}

/// When the next request is due: at once (closed loop) or at its place in a fixed schedule.
pub struct Pace {
    pub gap_ns: Option<f64>,
    pub start: u64,
    pub next: Cell<u64>,
    pub limit: Option<u64>,
}

impl Pace {
    pub async fn due(&self) -> Option<u64> {
        let i = self.next.get();
        if self.limit.is_some_and(|n| i >= n) {
            return None;
        }
        self.next.set(i + 1);
        match self.gap_ns {
            None => Some(mono_ns()),
            Some(g) => {
                let at = self.start + (i as f64 * g) as u64;
                let now = mono_ns();
                if at > now {
                    tokio::time::sleep(Duration::from_nanos(at - now)).await;
                }
                Some(at)
            },
        }
    }
}

pub async fn worker(job: Rc<Job>, t: Rc<Tally>, pace: Rc<Pace>, delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let mut conn: Option<TcpStream> = None;
    let mut buf = vec![0u8; 65536];
    let mut head = Vec::new();
    let mut reused;
    while !t.stop.get() {
        let Some(t0) = pace.due().await else { break };
        reused = conn.is_some();
        if conn.is_none() {
            conn = connect(&job, &t).await;
        }
        let Some(s) = conn.as_mut() else { continue };
        t.live.set(t.live.get() + 1);
        t.add(&t.started, 1);
        let r =
            tokio::time::timeout(job.timeout, exchange(s, &mut buf, &mut head, &job, &t, t0)).await;
        t.live.set(t.live.get() - 1);
        match r {
            Ok(Ok(true)) => {},
            Ok(Ok(false)) => conn = None,
            Ok(Err(kind)) => {
                // A keep-alive connection the far side closed between requests is named apart.
                t.error(&if reused && kind == "eof_before_answer" {
                    "idle_close".to_string()
                } else {
                    kind
                });
                conn = None;
            },
            Err(_) => {
                t.error("timeout");
                conn = None;
            },
        }
    }
}
