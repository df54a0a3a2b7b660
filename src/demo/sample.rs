//! What a sample engine says when nothing is behind it.
//!
//! Owns: the text, its pace, the made-up embeddings. Leaves to others: the shape it is sent in
//! (`answer`). The text names the node and says that it is a sample, because a person who tries
//! the demo must never take it for a model's answer; it repeats nothing of the prompt.

use std::time::{Duration, Instant};

use super::answer::{Finish, Stats};
use super::engine::Busy;

/// Numbers in a sample embedding.
pub(super) const DIMENSIONS: usize = 64;

/// The whole sample answer of a node.
pub(super) fn text(node: &str, model: &str) -> String {
    format!(
        "Sample answer from {node} for {model}. This is built-in text of the nvpair-proxy demo: \
         no model ran, and your prompt went no further than this process. The router chose this \
         node among those that list the model; ask again and another one may answer. In a second \
         terminal, nvpair-proxy status shows the nodes and their load, and nvpair-proxy workloads \
         shows where each request went and which were tried again."
    )
}

/// One answer being given: a word at a time, at the node's pace.
pub(super) struct SampleRun {
    words: Vec<String>,
    at: usize,
    limit: Option<u64>,
    endless: bool,
    given: u64,
    delay: Duration,
    load: Duration,
    prompt_tokens: u64,
    started: Instant,
    first: Option<Instant>,
    _busy: Busy,
}

/// What shapes a sample answer.
pub(super) struct Pace {
    /// Time before each token.
    pub(super) delay: Duration,
    /// The model was not loaded yet.
    pub(super) cold: bool,
    /// Most tokens wanted.
    pub(super) limit: Option<u64>,
    /// Say it again until the limit is reached.
    pub(super) endless: bool,
    /// Tokens of the prompt.
    pub(super) prompt_tokens: u64,
}

impl SampleRun {
    pub(super) fn new(text: &str, pace: &Pace, busy: Busy) -> Self {
        Self {
            words: text.split_inclusive(' ').map(str::to_owned).collect(),
            at: 0,
            limit: pace.limit,
            endless: pace.endless && pace.limit.is_some(),
            given: 0,
            delay: pace.delay,
            // A model that is not loaded costs something, so that warm-first routing can be seen.
            load: if pace.cold {
                pace.delay * 10
            } else {
                Duration::ZERO
            },
            prompt_tokens: pace.prompt_tokens,
            started: Instant::now(),
            first: None,
            _busy: busy,
        }
    }

    pub(super) async fn next(&mut self) -> Option<String> {
        if self.limit.is_some_and(|l| self.given >= l) {
            return None;
        }
        if self.at == self.words.len() {
            if !self.endless {
                return None;
            }
            self.at = 0;
        }
        let wait = if self.given == 0 {
            self.load + self.delay
        } else {
            self.delay
        };
        if wait.is_zero() {
            // Each token still leaves as a chunk of its own.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(wait).await;
        }
        self.first.get_or_insert_with(Instant::now);
        self.given += 1;
        self.at += 1;
        Some(self.words[self.at - 1].clone())
    }

    pub(super) fn end(&self) -> (Finish, Stats) {
        let now = Instant::now();
        let first = self.first.unwrap_or(now);
        let cut = self.endless || self.at < self.words.len();
        let stats = Stats {
            prompt_tokens: self.prompt_tokens,
            tokens: self.given,
            load: self.load,
            prompt: first.duration_since(self.started).saturating_sub(self.load),
            eval: now.duration_since(first),
            total: now.duration_since(self.started),
        };
        (if cut { Finish::Length } else { Finish::Stop }, stats)
    }
}

/// A vector of length one that depends on the text alone: equal texts get equal vectors.
pub(super) fn embedding(text: &str) -> Vec<f32> {
    let mut seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    let mut v: Vec<f32> = (0..DIMENSIONS)
        .map(|_| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = seed;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            // The top 16 bits as -1..1; exact in f32.
            f32::from(((x >> 48) as u16 as i32 - 0x8000) as i16) / 32768.0
        })
        .collect();
    let length = v.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        v.iter_mut().for_each(|x| *x /= length);
    }
    v
}

/// The base64 form that OpenAI clients ask for: little-endian 32-bit floats.
pub(super) fn base64(v: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - part.len()));
        for digit in 0..4 {
            if digit <= part.len() {
                out.push(char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_plainly_that_it_is_a_sample() {
        let t = text("n1", "m1");
        assert!(t.starts_with("Sample answer from n1 for m1."), "{t}");
        assert!(t.contains("no model ran"), "{t}");
    }

    #[test]
    fn equal_texts_embed_equally_and_every_vector_has_length_one() {
        assert_eq!(embedding("a"), embedding("a"));
        assert_ne!(embedding("a"), embedding("b"));
        for t in ["", "a", "the sea"] {
            let sum: f32 = embedding(t).iter().map(|x| x * x).sum();
            assert!((sum - 1.0).abs() < 1e-4, "{t:?} {sum}");
        }
    }

    #[test]
    fn base64_is_that_of_little_endian_floats() {
        assert_eq!(base64(&[]), "");
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[1.0, -2.0]), "AACAPwAAAMA=");
        assert_eq!(base64(&[1.0, -2.0, 0.0]), "AACAPwAAAMAAAAAA");
    }
}
