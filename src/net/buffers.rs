//! Buffers for reading, shared by all connections of a thread.
//!
//! Owns: those that nobody uses now. Leaves to others: what is read into them.
//!
//! A connection that waits holds none: however many there are, the few that are read at a time take
//! turns with the same bytes, which stay in the processor's cache.

use std::cell::RefCell;

use bytes::BytesMut;

/// What is read at once.
pub const READ: usize = 16 * 1024;

/// A thread keeps this many for the next one.
const KEPT: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for [`READ`] bytes.
pub fn take() -> BytesMut {
    let spare = SPARE.with_borrow_mut(Vec::pop);
    spare.unwrap_or_else(|| BytesMut::with_capacity(READ))
}

/// A buffer that is not used any more; what is in it is lost. Of one whose bytes somebody still holds,
/// nothing is kept.
pub fn give_back(mut buffer: BytesMut) {
    buffer.clear();
    // One that grew is let go too.
    if !buffer.try_reclaim(READ) || buffer.capacity() > 2 * READ {
        return;
    }
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < KEPT {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_given_back_is_the_next_one_taken() {
        let mut first = take();
        first.extend_from_slice(b"secret");
        let place = first.as_ptr();
        give_back(first);
        let again = take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert!(again.capacity() >= READ);
    }

    #[test]
    fn bytes_that_somebody_holds_are_not_overwritten() {
        let mut buffer = take();
        buffer.extend_from_slice(b"body");
        let body = buffer.split().freeze();
        give_back(buffer);
        assert_eq!(SPARE.with_borrow(Vec::len), 0);
        let mut next = take();
        next.extend_from_slice(b"other");
        assert_eq!((&body[..], &next[..]), (&b"body"[..], &b"other"[..]));
    }

    #[test]
    fn not_more_are_kept_than_may_be() {
        let many: Vec<_> = (0..KEPT + 8).map(|_| take()).collect();
        many.into_iter().for_each(give_back);
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
        give_back(BytesMut::with_capacity(8 * READ));
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}
