//! The express lane: a plain inference request carried as bytes, without an HTTP library between the
//! client and the engine.
//!
//! Owns: reading plain requests off a connection, relaying the answer as it is read. Leaves to others:
//! one attempt (`plainly`), what is plain (`net::h1`), every decision (`round`, `rules`), and every
//! request that is not plain: then the connection goes to the HTTP library for good.
//!
//! Both lanes keep the same rules; this one is for the case that nearly all traffic is: `POST` to an
//! inference route, with a length, nothing about the connection in its head.

mod plainly;

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use http::{HeaderMap, Method, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use crate::net::answers;
use crate::net::buffers::{self, READ};
use crate::net::client_io::{ClientIo, Door};
use crate::net::h1::framing::Tracker;
use crate::net::h1::request::{self, Admission, Plain};
use crate::net::h1::response::Head;
use crate::net::lazy_timer::LazyTimer;
use crate::net::sockets::{Answered, poll_read_into, put_chunk};
use crate::net::stream::Stream;
use crate::rules::candidates::Target;
use crate::rules::model_scan::ModelScan;
use crate::rules::outcome::Effort;
use crate::rules::route::{Class, classify, dialect};
use crate::rules::usage::{Tap, TapKind};
use crate::state::fate::Commit;
use crate::state::lifetime::Phase;

use self::plainly::{Begun, Plainly, deadline, read};
use super::Facade;
use super::relay::Liveness;
use super::report::{Cut, Report};
use super::round::{Model, Round};
use super::server::door;

/// Of a body under way at most this much room is made ahead of its bytes.
const AHEAD: u64 = 4 * 1024 * 1024;

/// A client that sends more than this behind its request is not watched any further.
const PIPELINED: usize = 64 * 1024;

/// Room for what a client sends while it is answered: hardly ever anything.
const WATCHED: usize = 512;

/// A connection whose next request is not plain: what was read of it, and the rest.
pub struct Handover {
    /// The connection.
    pub io: ClientIo<Stream>,
    /// Bytes that were read already.
    pub read: BytesMut,
}

/// One client's connection.
pub struct Express {
    facade: Facade,
    door: Arc<Door>,
    client: IpAddr,
    /// The same as text.
    shown: String,
    io: ClientIo<Stream>,
    buf: BytesMut,
    phase: watch::Receiver<Phase>,
    /// For whatever an engine is waited for.
    timer: LazyTimer,
    /// Whether a byte of the answer under way went out.
    answering: bool,
}

/// The connection is over: it ended, or it cannot go on.
struct Over;

impl Express {
    /// A connection that just sent its first byte.
    pub fn new(
        facade: Facade,
        door: Arc<Door>,
        client: IpAddr,
        io: ClientIo<Stream>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        Self {
            facade,
            door,
            client,
            shown: client.to_string(),
            io,
            buf: BytesMut::new(),
            phase,
            timer: LazyTimer::default(),
            answering: false,
        }
    }

    /// Serves plain requests until the connection ends (`None`) or one comes that is not plain.
    pub async fn run(mut self) -> Option<Handover> {
        let mut phase = self.phase.clone();
        // One wait for the whole connection: a new one each time would cost as much as a short answer.
        let mut ending = pin!(async move { drop(phase.wait_for(|p| *p != Phase::Running).await) });
        loop {
            let (plain, path) = match self.next(ending.as_mut()).await {
                Ok(Some(found)) => found,
                Ok(None) => {
                    return Some(Handover {
                        io: self.io,
                        read: self.buf,
                    });
                },
                Err(Over) => return None,
            };
            let door = self.door.clone();
            let _serving = door.serve();
            let route = dialect(path);
            self.answering = false;
            // Where it stays: a future of this size is not moved from one to the next, here and below.
            let served = {
                let serving = pin!(self.serve(plain, path));
                AssertUnwindSafe(serving).catch_unwind().await
            };
            match served {
                Ok(Ok(()))
                    if *self.phase.borrow() == Phase::Running
                        && !self.facade.state.is_retired() => {},
                Ok(_) => return None,
                // The panic ends its request alone: answered if no byte went out, else cut.
                Err(_) if self.answering => return None,
                Err(_) => {
                    let text = "internal error while handling the request; the log has the details";
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    drop(self.write_own(answers::error(route, status, text)).await);
                    return None;
                },
            }
        }
    }

    /// The next request, if it is plain and on an inference route; nothing of another is consumed.
    async fn next(
        &mut self,
        mut ending: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<(Box<Plain>, &'static str)>, Over> {
        if self.buf.is_empty() {
            // An idle connection holds no buffer.
            buffers::give_back(std::mem::take(&mut self.buf));
        }
        loop {
            match request::admit(&self.buf) {
                Admission::Other => return Ok(None),
                Admission::Plain(plain) => {
                    let admitted = self.admitted(&plain).map(|path| (plain, path));
                    return Ok(admitted);
                },
                Admission::Partial => {},
            }
            let (io, buf) = (&mut self.io, &mut self.buf);
            let read = tokio::select! {
                biased;
                read = std::future::poll_fn(|cx| poll_read_into(io, buf, READ, cx)) => read,
                () = ending.as_mut() => return Err(Over),
            };
            if read.map_err(|_| Over)? == 0 {
                return Err(Over);
            }
        }
    }

    /// The route of a plain request that this lane takes: in the limit, past the door, and towards
    /// nodes in plain HTTP.
    fn admitted(&self, plain: &Plain) -> Option<&'static str> {
        let head = &self.buf[..plain.len];
        let target = std::str::from_utf8(plain.target(head)).ok()?;
        let path = &target[..memchr::memchr(b'?', target.as_bytes()).unwrap_or(target.len())];
        let engine = self.facade.state.engine();
        if engine.is_gateway() {
            // It may have to write another model's name into the body.
            return None;
        }
        let class = classify(engine, &Method::POST, path, &HeaderMap::new());
        let Class::Inference { path } = class else {
            return None;
        };
        let settings = self.facade.context.shared.settings.now();
        let limit = settings.max_request_bytes;
        let door = door(&self.facade, &settings, true);
        let refused = door
            .refuses_plain(
                self.client,
                plain.host(head)?,
                plain.probe,
                plain.origin(head),
            )
            .is_some();
        // A key is looked for on the other lane, and so is that of a caller who needs one.
        let clients = &self.facade.context.shared.clients;
        let keyed = !self.client.is_loopback() || plain.keyed && !clients.is_empty();
        let fits = plain.content_length <= limit && !refused && !keyed;
        (fits && !self.facade.routing().view.has_tls()).then_some(path)
    }

    async fn serve(&mut self, plain: Box<Plain>, path: &'static str) -> Result<(), Over> {
        let head = self.buf.split_to(plain.len).freeze();
        let mut report = Report::new(&self.facade, &self.door, Method::POST, path.into());
        report.see(plain.trace_parents(&head), plain.trace_states(&head));
        let mut scan = ModelScan::new();
        let body = self.body(&plain, &mut scan).await?;
        let model = scan.finish().map(|name| Model { name, path });
        let (round, first) = Round::new(report, Effort::Budget, model, plain.content_length, false);
        let mut round = Box::new(round);
        let mut lane = Plainly {
            plain: &plain,
            head,
            client: &self.shown,
            body,
            timer: &mut self.timer,
        };
        let driven = {
            let driven = pin!(round.drive(&mut lane, first));
            let left = pin!(left(&mut self.io, &mut self.buf));
            tokio::select! {
                biased;
                driven = driven => driven,
                // Dropped unanswered, the request reports that its client left.
                () = left => return Err(Over),
            }
        };
        drop(lane);
        match driven {
            Ok((target, answer, claimed)) => {
                pin!(self.relay(*round, target, answer, claimed)).await
            },
            Err(answer) => {
                let response = round.answer(answer, plain.has_origin());
                self.write_own(response).await
            },
        }
    }

    /// Reads the request's body, most often without a further read, and finds the model in it.
    async fn body(&mut self, plain: &Plain, scan: &mut ModelScan) -> Result<Bytes, Over> {
        let length = plain.content_length;
        if self.buf.len() as u64 >= length {
            let body = self.buf.split_to(length as usize).freeze();
            scan.push(&body);
            return Ok(body);
        }
        let mut body = self.buf.split();
        scan.push(&body);
        loop {
            let missing = length - body.len() as u64;
            if missing == 0 {
                return Ok(body.freeze());
            }
            if body.capacity() == body.len() {
                body.reserve(missing.min(AHEAD.max(body.len() as u64)) as usize);
            }
            let before = body.len();
            let mut room = (&mut body).limit(missing as usize);
            if self.io.read_buf(&mut room).await.map_err(|_| Over)? == 0 {
                return Err(Over);
            }
            scan.push(&body[before..]);
        }
    }

    /// Streams a committed answer to its end.
    async fn relay(
        &mut self,
        mut round: Round,
        target: Arc<Target>,
        answer: Begun,
        claimed: Commit,
    ) -> Result<(), Over> {
        let Begun {
            answered,
            tracker,
            ended,
        } = answer;
        let Answered {
            mut stream,
            mut head,
            input,
            sent,
        } = answered;
        round.report.commit(&target, head.status, claimed);
        for (name, value) in round.response_headers(&target).into_iter().flatten() {
            head.add(name, &value);
        }
        if let Some(job) = round.report.job() {
            job.framed(head.content_type());
        }
        let tap = (round.report.job().is_some() && head.status < 400).then(|| {
            let kind = TapKind::for_response(head.content_type(), head.content_encoding());
            Box::new(Tap::new(kind))
        });
        let mut passing = Passing {
            tracker: head.body.clone(),
            tap,
            alive: Liveness::default(),
        };
        let (mut end, mut reusable) = (ended, head.keep_alive && sent);
        let measured = passing.see(&input, &round.report, &target);
        debug_assert!(measured.is_ok() && passing.tracker == tracker);
        head.lines.put_slice(b"\r\n");
        self.answering = true;
        let mut out = BytesMut::new();
        let mut chunk = input;
        let done = end || passing.tracker.is_done();
        if self
            .write(&head, &mut out, Some(&head.lines), &chunk, done)
            .await
            .is_err()
        {
            passing.measured(&mut round.report);
            return Err(Over);
        }
        let idle = round.report.settings().stream_idle_cap;
        if self.buf.is_empty() {
            // The request is not needed any more.
            buffers::give_back(std::mem::take(&mut self.buf));
        }
        while !passing.tracker.is_done() && !end {
            buffers::give_back(std::mem::take(&mut chunk));
            let read = tokio::select! {
                biased;
                read = read(&mut stream, &mut chunk, &mut self.timer, deadline(idle)) => read,
                () = left(&mut self.io, &mut self.buf) => {
                    passing.measured(&mut round.report);
                    return Err(Over);
                },
            };
            let n = match read {
                Some(Ok(0)) if passing.tracker.ends_with_close() => {
                    end = true;
                    0
                },
                Some(Ok(read)) if read > 0 => match passing.see(&chunk, &round.report, &target) {
                    Ok(n) => {
                        // What follows the answer is nobody's.
                        reusable &= n == read;
                        n
                    },
                    Err(_) => return self.cut(round, passing, Cut::Aborted),
                },
                // Ended early, failed, or silent for too long: no clean end for the client either.
                Some(_) => return self.cut(round, passing, Cut::Aborted),
                None => return self.cut(round, passing, Cut::Silent),
            };
            let done = end || passing.tracker.is_done();
            let written = self.write(&head, &mut out, None, &chunk[..n], done).await;
            if written.is_err() {
                passing.measured(&mut round.report);
                return Err(Over);
            }
        }
        buffers::give_back(chunk);
        round.report.relayed();
        passing.measured(&mut round.report);
        // Before the report is given: whoever is told may send the next request.
        if reusable && !end {
            self.facade
                .context
                .sockets
                .give_back(&target.authority, stream);
        }
        Ok(())
    }

    fn cut(&self, mut round: Round, passing: Passing, cut: Cut) -> Result<(), Over> {
        round.report.truncated(cut);
        passing.measured(&mut round.report);
        Err(Over)
    }

    /// Writes a piece of an answer: as it came, or in chunks of our own where it has no framing.
    async fn write(
        &mut self,
        head: &Head,
        out: &mut BytesMut,
        lines: Option<&[u8]>,
        data: &[u8],
        last: bool,
    ) -> std::io::Result<()> {
        if !head.unframed {
            return match lines {
                Some(lines) if data.is_empty() => self.io.write_all(lines).await,
                Some(lines) => write_both(&mut self.io, lines, data).await,
                None => self.io.write_all(data).await,
            };
        }
        out.clear();
        out.put_slice(lines.unwrap_or_default());
        put_chunk(out, data);
        if last {
            out.put_slice(b"0\r\n\r\n");
        }
        self.io.write_all(out).await
    }

    async fn write_own(&mut self, response: Response<Bytes>) -> Result<(), Over> {
        self.answering = true;
        let out = answers::bytes(&response);
        self.io.write_all(&out).await.map_err(|_| Over)
    }
}

/// What an answer's bytes are looked at for, on their way.
struct Passing {
    tracker: Tracker,
    tap: Option<Box<Tap>>,
    alive: Liveness,
}

impl Passing {
    /// Raw bytes go by; how many of them belong to the answer.
    fn see(
        &mut self,
        raw: &[u8],
        report: &Report,
        target: &Target,
    ) -> Result<usize, crate::net::h1::framing::Malformed> {
        let at = self
            .tap
            .as_ref()
            .map(|_| report.arrived().elapsed().as_micros() as u64);
        let (tap, mut any) = (&mut self.tap, false);
        let used = self.tracker.feed(raw, |data| {
            any |= !data.is_empty();
            if let (Some(tap), Some(at)) = (tap.as_mut(), at) {
                tap.push(data, at);
            }
        })?;
        if any {
            self.alive.seen(report.facade(), target);
        }
        Ok(used)
    }

    fn measured(&self, report: &mut Report) {
        if let Some(tap) = &self.tap {
            report.measured(tap.finish(0));
        }
    }
}

/// Resolves when the client left; what it sends meanwhile is kept for its next request.
async fn left(io: &mut ClientIo<Stream>, buf: &mut BytesMut) {
    while buf.len() < PIPELINED {
        let read = std::future::poll_fn(|cx| poll_read_into(io, buf, WATCHED, cx)).await;
        if !matches!(read, Ok(n) if n > 0) {
            return;
        }
    }
    // It sent too much ahead to be watched: a failing write will tell.
    std::future::pending::<Infallible>().await;
}

async fn write_both(
    io: &mut ClientIo<Stream>,
    mut first: &[u8],
    mut second: &[u8],
) -> std::io::Result<()> {
    while !first.is_empty() {
        let parts = [std::io::IoSlice::new(first), std::io::IoSlice::new(second)];
        let n = io.write_vectored(&parts).await?;
        if n == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        let of_first = n.min(first.len());
        first = &first[of_first..];
        second = &second[n - of_first..];
    }
    io.write_all(second).await
}
