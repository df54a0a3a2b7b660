//! A timer that is set often and hardly ever fires.
//!
//! Owns: that setting it later than it is armed costs nothing. Leaves to others: what it bounds.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A timer that is used again and again.
#[derive(Default)]
pub struct LazyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whom the sleep will wake: looking at it again is no use before it does.
    wakes: Option<Waker>,
    deadline: Option<Instant>,
}

impl LazyTimer {
    /// Ends after this time, unless it runs already.
    pub fn start(&mut self, after: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + after);
    }

    /// Ends at this moment; `None` = never.
    pub fn set(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Does not end any more.
    pub fn stop(&mut self) {
        self.deadline = None;
    }

    /// Whether it ended.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        let is_known = |wakes: &Waker| wakes.will_wake(cx.waker());
        if self.wakes.as_ref().is_some_and(is_known)
            && sleep.deadline() <= deadline
            && !sleep.is_elapsed()
        {
            return Poll::Pending;
        }
        self.wakes = None;
        loop {
            if sleep.deadline() > deadline {
                sleep.as_mut().reset(deadline);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                self.wakes = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }

    /// What `work` gives within its time, else `None`. The work is looked at first.
    pub async fn within<T>(
        &mut self,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        std::future::poll_fn(|cx| match work(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(cx).map(|()| None),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn nothing(_: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_at_the_moment_that_was_set_last() {
        let mut timer = LazyTimer::default();
        let begun = Instant::now();
        for (set, ends) in [(10, 10), (30, 30), (35, 35)] {
            timer.set(Some(begun + S * set));
            assert_eq!(timer.within(nothing).await, None);
            assert_eq!(begun.elapsed(), S * ends);
        }
        // Armed for later than it is set.
        timer.set(Some(begun + S * 1000));
        assert_eq!(timer.within(|_| Poll::Ready(7)).await, Some(7));
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(timer.poll(cx)))
                .await
                .is_pending()
        );
        timer.set(Some(begun + S * 50));
        assert_eq!(timer.within(nothing).await, None);
        assert_eq!(begun.elapsed(), S * 50);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_last_is_woken() {
        let timer = Arc::new(Mutex::new(LazyTimer::default()));
        timer.lock().unwrap().set(Some(Instant::now() + S * 10));
        let ask = |timer: Arc<Mutex<LazyTimer>>| {
            tokio::spawn(std::future::poll_fn(move |cx| {
                timer.lock().unwrap().poll(cx)
            }))
        };
        let first = ask(timer.clone());
        tokio::time::sleep(S).await;
        first.abort();
        let begun = Instant::now();
        ask(timer).await.unwrap();
        assert_eq!(begun.elapsed(), S * 9);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_runs_is_not_started_again_and_one_that_was_stopped_never_ends() {
        let mut timer = LazyTimer::default();
        let begun = Instant::now();
        timer.start(S);
        timer.start(S * 9);
        assert_eq!(timer.within(nothing).await, None);
        assert_eq!(begun.elapsed(), S);
        timer.stop();
        let waited = tokio::time::timeout(S * 3600, timer.within(nothing)).await;
        assert!(waited.is_err());
    }
}
