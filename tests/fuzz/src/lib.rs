//! What the targets share.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Sizes of the pieces in which a text has to mean the same as in one.
pub const PIECES: [usize; 4] = [1, 2, 7, 64];

/// The result of what never has to wait.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for something"),
    }
}
