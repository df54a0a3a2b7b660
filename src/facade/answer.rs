//! The one body type of everything a facade answers.
//!
//! Owns: joining own and relayed bodies, and marking the connection idle when the answer is done.
//! Leaves to others: making either.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};

use crate::net::client_io::Serving;

use super::ingress::Passed;
use super::relay::{Broken, Relay};

/// What a request is answered with, before it is tied to its connection.
pub enum Content {
    /// Made by us.
    Own(Bytes),
    /// An engine's.
    Relayed(Box<Relay>),
    /// Our own engine's, for a peer.
    Passed(Box<Passed>),
}

/// The body of an answer. While it lives its connection counts as busy.
pub struct Answer {
    content: Content,
    _serving: Serving,
}

impl Answer {
    /// Ties an answer to its connection.
    pub fn on(serving: Serving, response: Response<Content>) -> Response<Self> {
        response.map(|content| Self {
            content,
            _serving: serving,
        })
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.content {
            Content::Own(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Own(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Relayed(relay) => Pin::new(&mut **relay).poll_frame(cx),
            Content::Passed(passed) => Pin::new(&mut **passed).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(bytes) => bytes.is_empty(),
            Content::Relayed(relay) => relay.is_end_stream(),
            Content::Passed(passed) => passed.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Relayed(relay) => relay.size_hint(),
            Content::Passed(passed) => passed.size_hint(),
        }
    }
}
