//! What comes back: its framing, its tokens, and the tally of all answers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Tally {
    pub on: Cell<bool>,
    pub stop: Cell<bool>,
    pub done: Cell<u64>,
    pub started: Cell<u64>,
    pub chunks: Cell<u64>,
    pub bytes: Cell<u64>,
    pub reads: Cell<u64>,
    pub connects: Cell<u64>,
    pub live: Cell<u64>,
    pub errors: RefCell<BTreeMap<String, u64>>,
    pub ttfb: RefCell<Vec<u64>>,
    pub first_token: RefCell<Vec<u64>>,
    pub total: RefCell<Vec<u64>>,
    pub transit: RefCell<Vec<u64>>,
}

impl Tally {
    pub fn add(&self, c: &Cell<u64>, n: u64) {
        if self.on.get() {
            c.set(c.get() + n);
        }
    }
    pub fn error(&self, kind: &str) {
        if self.on.get() {
            *self
                .errors
                .borrow_mut()
                .entry(kind.to_string())
                .or_default() += 1;
        }
    }
}

/// Chunked-transfer decoder state.
pub enum Chunk {
    Size(u64, bool),
    SizeExt(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    Done,
}

pub enum Framing {
    Length(u64),
    Chunked(Chunk),
    Eof,
}

/// What the body held so far.
#[derive(Default)]
pub struct Scan {
    pub bytes: u64,
    pub stamps: u64,
    pub partial: Option<u64>,
    pub tail: Vec<u8>,
}

impl Scan {
    pub fn feed(&mut self, mut b: &[u8], streaming: bool, now: u64, t: &Tally) {
        self.bytes += b.len() as u64;
        if b.len() >= 512 {
            self.tail.clear();
            self.tail.extend_from_slice(&b[b.len() - 512..]);
        } else {
            self.tail.extend_from_slice(b);
            if self.tail.len() > 2048 {
                let cut = self.tail.len() - 512;
                self.tail.drain(..cut);
            }
        }
        if !streaming {
            return;
        }
        loop {
            if let Some(mut v) = self.partial {
                let mut i = 0;
                let mut ended = false;
                let mut junk = false;
                while i < b.len() {
                    let c = b[i];
                    i += 1;
                    match c {
                        b'0'..=b'9' => v = v.wrapping_mul(36).wrapping_add((c - b'0') as u64),
                        b'a'..=b'z' => v = v.wrapping_mul(36).wrapping_add((c - b'a' + 10) as u64),
                        b';' => {
                            ended = true;
                            break;
                        },
                        _ => {
                            junk = true;
                            break;
                        },
                    }
                }
                b = &b[i..];
                if ended {
                    self.partial = None;
                    self.stamps += 1;
                    if t.on.get() {
                        t.chunks.set(t.chunks.get() + 1);
                        t.transit.borrow_mut().push(now.saturating_sub(v));
                    }
                } else if junk {
                    self.partial = None;
                } else {
                    self.partial = Some(v);
                    return;
                }
            }
            match memchr::memchr(b'@', b) {
                Some(i) => {
                    b = &b[i + 1..];
                    self.partial = Some(0);
                },
                None => return,
            }
        }
    }
    pub fn has_end_marker(&self) -> bool {
        let f = |n: &[u8]| memchr::memmem::find(&self.tail, n).is_some();
        f(b"[DONE]") || f(b"\"done\":true") || f(b"\"done\": true")
    }
}

/// Feeds `b` through the framing into `scan`. Ok(true): the body is complete.
pub fn feed_body(
    fr: &mut Framing,
    mut b: &[u8],
    scan: &mut Scan,
    streaming: bool,
    now: u64,
    t: &Tally,
) -> Result<bool, &'static str> {
    match fr {
        Framing::Length(left) => {
            if b.len() as u64 > *left {
                return Err("bytes_after_body");
            }
            scan.feed(b, streaming, now, t);
            *left -= b.len() as u64;
            Ok(*left == 0)
        },
        Framing::Eof => {
            scan.feed(b, streaming, now, t);
            Ok(false)
        },
        Framing::Chunked(st) => {
            while !b.is_empty() {
                match st {
                    Chunk::Data(left) => {
                        let n = (*left).min(b.len() as u64) as usize;
                        scan.feed(&b[..n], streaming, now, t);
                        *left -= n as u64;
                        b = &b[n..];
                        if *left == 0 {
                            *st = Chunk::DataCr;
                        }
                        continue;
                    },
                    Chunk::Done => return Err("bytes_after_body"),
                    _ => {},
                }
                let c = b[0];
                b = &b[1..];
                *st = match st {
                    Chunk::Size(n, any) => match c {
                        b'0'..=b'9' => Chunk::Size(*n * 16 + (c - b'0') as u64, true),
                        b'a'..=b'f' => Chunk::Size(*n * 16 + (c - b'a' + 10) as u64, true),
                        b'A'..=b'F' => Chunk::Size(*n * 16 + (c - b'A' + 10) as u64, true),
                        b'\r' if *any => Chunk::SizeLf(*n),
                        b';' | b' ' if *any => Chunk::SizeExt(*n),
                        _ => return Err("bad_chunk_size"),
                    },
                    Chunk::SizeExt(n) => {
                        if c == b'\r' {
                            Chunk::SizeLf(*n)
                        } else {
                            Chunk::SizeExt(*n)
                        }
                    },
                    Chunk::SizeLf(n) => match (c, *n) {
                        (b'\n', 0) => Chunk::TrailerStart,
                        (b'\n', n) => Chunk::Data(n),
                        _ => return Err("bad_chunk_size"),
                    },
                    Chunk::DataCr if c == b'\r' => Chunk::DataLf,
                    Chunk::DataLf if c == b'\n' => Chunk::Size(0, false),
                    Chunk::DataCr | Chunk::DataLf => return Err("bad_chunk_end"),
                    Chunk::TrailerStart => {
                        if c == b'\r' {
                            Chunk::EndLf
                        } else {
                            Chunk::Trailer
                        }
                    },
                    Chunk::Trailer => {
                        if c == b'\r' {
                            Chunk::TrailerLf
                        } else {
                            Chunk::Trailer
                        }
                    },
                    Chunk::TrailerLf => Chunk::TrailerStart,
                    Chunk::EndLf if c == b'\n' => Chunk::Done,
                    Chunk::EndLf => return Err("bad_chunk_end"),
                    Chunk::Data(_) | Chunk::Done => unreachable!(),
                };
            }
            Ok(matches!(st, Chunk::Done))
        },
    }
}

pub struct Head {
    pub len: usize,
    pub status: u16,
    pub framing: Framing,
    pub keep: bool,
}

pub fn parse_head(buf: &[u8]) -> Result<Option<Head>, &'static str> {
    let mut hs = [httparse::EMPTY_HEADER; 64];
    let mut r = httparse::Response::new(&mut hs);
    match r.parse(buf) {
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err("bad_http"),
        Ok(httparse::Status::Complete(len)) => {
            let mut framing = Framing::Eof;
            let mut keep = r.version == Some(1);
            for h in r.headers.iter() {
                if h.name.eq_ignore_ascii_case("content-length") {
                    let n = std::str::from_utf8(h.value)
                        .ok()
                        .and_then(|s| s.trim().parse().ok())
                        .ok_or("bad_http")?;
                    if !matches!(framing, Framing::Chunked(_)) {
                        framing = Framing::Length(n);
                    }
                } else if h.name.eq_ignore_ascii_case("transfer-encoding") {
                    framing = Framing::Chunked(Chunk::Size(0, false));
                } else if h.name.eq_ignore_ascii_case("connection")
                    && h.value.eq_ignore_ascii_case(b"close")
                {
                    keep = false;
                }
            }
            let status = r.code.unwrap_or(0);
            if status == 204 || status == 304 {
                framing = Framing::Length(0);
            }
            if matches!(framing, Framing::Eof) {
                keep = false;
            }
            Ok(Some(Head {
                len,
                status,
                framing,
                keep,
            }))
        },
    }
}
