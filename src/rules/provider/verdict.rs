//! What an end says about a provider, and whether another one is asked.
//!
//! Owns: both tables. Leaves to others: counting (`circuit`, `penalty`), how long a limit lasts
//! (`limits`). Only statuses are read, never bodies.

use std::borrow::Cow;

use crate::rules::outcome::Failure;

/// What the end of a request says about its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Success,
    /// It does not; how, in words for a person.
    Failure(Cow<'static, str>),
    /// It wants to be left alone for a while.
    Limited,
    /// Nothing.
    Neutral,
}

impl Verdict {
    /// A failure in these words.
    pub fn failure(how: impl Into<Cow<'static, str>>) -> Self {
        Self::Failure(how.into())
    }

    /// Of an answer with this status that went through to its end, or was given up for its status.
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            // A moved API: it is never followed, so that the key goes nowhere else.
            _ if is_redirect(status) => {
                Self::failure(format!("answered {status}: it moved; correct its base_url"))
            },
            401 => Self::failure("answered 401: it does not know the key"),
            402 => Self::failure("answered 402: the account has no credit"),
            403 => Self::failure("answered 403: the key may not do this"),
            429 => Self::Limited,
            // A route that it does not have.
            501 => Self::Neutral,
            500..=599 => Self::failure(format!("answered {status}")),
            // 404 is the model's, not the provider's; the other ones are the request's.
            _ => Self::Neutral,
        }
    }

    /// Of an attempt that was lost before any content; `detail` is what the network said, without
    /// addresses.
    pub fn of_loss(failure: Failure, detail: &str) -> Self {
        match failure {
            Failure::Status(status) => Self::of_status(status),
            Failure::TargetGone => Self::Neutral,
            _ if detail.is_empty() => Self::failure(failure.text()),
            _ => Self::failure(detail.to_owned()),
        }
    }

    /// Of an answer that broke off after its first content.
    pub fn mid_stream() -> Self {
        Self::failure("the answer broke off in the middle")
    }
}

/// Whether another target is asked after a provider answered this before any content. A redirect is
/// not the client's to follow: it was made for our key and our address.
pub fn passes_on(status: u16) -> bool {
    is_refusal(status) || matches!(status, 408 | 429 | 500..)
}

/// Whether a status refuses the account or the model, or tells of another place: asking again changes
/// nothing.
pub fn is_refusal(status: u16) -> bool {
    is_redirect(status) || matches!(status, 401..=404)
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_the_providers_a_limit_or_nobodys() {
        for status in [200, 201, 204, 299] {
            assert_eq!(Verdict::of_status(status), Verdict::Success, "{status}");
        }
        for status in [
            301, 302, 303, 307, 308, 401, 402, 403, 500, 502, 503, 504, 529, 599,
        ] {
            let verdict = Verdict::of_status(status);
            let Verdict::Failure(how) = &verdict else {
                panic!("{status}: {verdict:?}")
            };
            assert!(how.contains(&status.to_string()), "{how}");
        }
        assert_eq!(Verdict::of_status(429), Verdict::Limited);
        for status in [
            100, 101, 304, 400, 404, 405, 408, 409, 413, 415, 422, 498, 501,
        ] {
            assert_eq!(Verdict::of_status(status), Verdict::Neutral, "{status}");
        }
    }

    #[test]
    fn a_lost_attempt_is_the_providers_failure_unless_it_was_taken_away() {
        for failure in [
            Failure::Transport,
            Failure::NoHeaders,
            Failure::NoContent,
            Failure::Broken,
        ] {
            assert_eq!(Verdict::of_loss(failure, "why"), Verdict::failure("why"));
            let told = Verdict::of_loss(failure, "");
            assert_eq!(told, Verdict::failure(failure.text()));
        }
        let gone = Verdict::of_loss(Failure::TargetGone, "x");
        assert_eq!(gone, Verdict::Neutral);
        let refused = Verdict::of_loss(Failure::Status(429), "x");
        assert_eq!(refused, Verdict::Limited);
    }

    #[test]
    fn what_is_the_providers_goes_on_to_the_next_and_what_is_the_requests_does_not() {
        for status in [
            301, 308, 401, 402, 403, 404, 408, 429, 500, 501, 503, 529, 599,
        ] {
            assert!(passes_on(status), "{status}");
        }
        for status in [200, 204, 304, 400, 405, 409, 413, 415, 422] {
            assert!(!passes_on(status), "{status}");
        }
    }

    #[test]
    fn a_refusal_is_what_another_try_would_not_change() {
        for status in [301, 302, 303, 307, 308, 401, 402, 403, 404] {
            assert!(is_refusal(status), "{status}");
        }
        for status in [200, 304, 400, 405, 408, 429, 500, 501, 503] {
            assert!(!is_refusal(status), "{status}");
        }
    }
}
