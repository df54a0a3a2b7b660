//! Listening sockets.
//!
//! Owns: binding, and on which addresses. Leaves to others: accepting (`facade::server`), the choice
//! of a port (`daemon`, `director`).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// A client has this long for a TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Connections the kernel holds for us: a burst of clients must not meet a full queue.
const BACKLOG: i32 = 4096;

/// A silent peer is asked for a sign of life after this time; one that gives none is gone twice as
/// long after its last.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// On which addresses a facade listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Both loopback addresses: standalone.
    Loopback,
    /// Every interface, both families: under a broker or with a cluster folder, so that cluster
    /// peers reach the same port.
    Everywhere,
}

/// Binds a facade's port. With both loopbacks, a machine without one family is served on the other.
///
/// # Errors
/// The port is taken or may not be bound.
pub fn bind(scope: Scope, port: u16) -> io::Result<Vec<TcpListener>> {
    match scope {
        Scope::Loopback => {
            let v4 = bind_one((Ipv4Addr::LOCALHOST, port).into())?;
            let v6 = bind_one((Ipv6Addr::LOCALHOST, port).into());
            match v6 {
                Ok(v6) => Ok(vec![v4, v6]),
                Err(e) if lacks_family(&e) => Ok(vec![v4]),
                Err(e) => Err(e),
            }
        },
        Scope::Everywhere => match bind_one((Ipv6Addr::UNSPECIFIED, port).into()) {
            Ok(both) => Ok(vec![both]),
            Err(e) if lacks_family(&e) => Ok(vec![bind_one((Ipv4Addr::UNSPECIFIED, port).into())?]),
            Err(e) => Err(e),
        },
    }
}

/// Binds one address; an IPv6 wildcard takes IPv4 too.
///
/// # Errors
/// The address is taken, not ours, or may not be bound.
pub fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // A restart must not wait for old connections to time out. On Windows the option would let two
    // processes share a port, so it is left alone there.
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The machine has no such address family.
fn lacks_family(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
    ) || e.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// Settings of every connection: no merging of small writes (a token must not wait for the next
/// one), and dead peers are noticed.
///
/// # Errors
/// The connection is gone already.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
    // By default the system gives a peer that went without a word another eleven minutes.
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    let keepalive = keepalive.with_interval(KEEPALIVE / 3);
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let keepalive = keepalive.with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_an_error_and_leaves_nothing_bound() {
        let held = bind(Scope::Everywhere, 0).unwrap();
        let port = held[0].local_addr().unwrap().port();
        for scope in [Scope::Everywhere, Scope::Loopback] {
            assert_eq!(
                bind(scope, port).unwrap_err().kind(),
                io::ErrorKind::AddrInUse
            );
        }
        drop(held);
        assert!(bind(Scope::Loopback, port).is_ok());
    }
}
