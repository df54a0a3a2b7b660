//! A connection that becomes something else (data plane 7.1): LM Studio's own SDK talks WebSocket
//! on this port.
//!
//! Owns: asking the engine for the switch and joining both sides after it.
//! Leaves to others: everything before the 101 (`exchange`).

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use crate::net::upstream::Connection;
use crate::state::lifetime::{Lifetime, Phase};

use super::answer::Content;
use super::attempt::Committed;
use super::report::{Cut, Report};

/// A client's side of a switch.
pub struct Client {
    protocol: HeaderValue,
    on_upgrade: OnUpgrade,
}

impl Client {
    /// What the request asks to become, if its preparation left such a wish.
    pub fn take(request: &mut Request<Incoming>) -> Option<Self> {
        let Wish(protocol) = request.extensions_mut().remove::<Wish>()?;
        Some(Self {
            protocol,
            on_upgrade: hyper::upgrade::on(request),
        })
    }

    /// Asks an engine for the same.
    pub fn ask(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }
}

/// The protocol a request asks for, kept with it while its connection's fields are stripped.
#[derive(Clone)]
pub struct Wish(pub HeaderValue);

/// The engine switched: so do we, and then bytes go both ways until either side ends.
pub fn switch(
    client: Option<Client>,
    committed: Committed,
    mut report: Report,
) -> Response<Content> {
    let Committed {
        head,
        body,
        connection,
        ..
    } = committed;
    let mut response = Response::from_parts(head, body);
    let theirs = hyper::upgrade::on(&mut response);
    let (head, _) = response.into_parts();
    if let Some(client) = client {
        let lifetime = report.facade().context.lifetime.clone();
        tokio::spawn(async move {
            match join(client, theirs, connection, &lifetime).await {
                Some(Ok(())) => report.relayed(),
                Some(Err(_)) => report.truncated(Cut::Aborted),
                None => {},
            }
        });
    }
    Response::from_parts(head, Content::Own(Bytes::new()))
}

/// Carries bytes both ways until either side ends; `None` if the process did before.
pub async fn join(
    client: Client,
    theirs: OnUpgrade,
    connection: Connection,
    lifetime: &Lifetime,
) -> Option<Result<(), hyper::Error>> {
    let joined = async {
        let (ours, theirs) = tokio::try_join!(client.on_upgrade, theirs)?;
        // The connection has handed its socket over by now.
        drop(connection);
        let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
        drop(copy_bidirectional(&mut ours, &mut theirs).await);
        Ok(())
    };
    let mut phase = lifetime.follow();
    tokio::select! {
        result = joined => Some(result),
        _ = phase.wait_for(|p| *p == Phase::Cut) => None,
    }
}
