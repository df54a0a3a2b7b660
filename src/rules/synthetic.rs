//! A request of a recorded shape, made up (product section 6, `replay --send`).
//!
//! Owns: a valid body in the dialect of each inference route, of about the recorded length and
//! asking for the recorded number of tokens. Leaves to others: sending it (`replay`).
//!
//! What is said in it is ours: a number and the same few words. The number comes first, because an
//! engine that remembers the beginning of a prompt would answer faster than it did.

use serde_json::{Value, json};

use super::engine::{EngineId, RouteKind, Verb};

/// Longest body that is made up: a longer one held images, and as text it would be over every
/// model's context.
pub const LONGEST: u64 = 1 << 20;

/// Tokens that are asked for at most.
const MOST_TOKENS: u64 = 131_072;

/// Fills prompts.
const WORDS: &str =
    "this text stands for a recorded prompt of the same length and says nothing else ";

/// What is known of the recorded request.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Its facade.
    pub engine: EngineId,
    /// Path of its route.
    pub path: &'a str,
    /// Its model.
    pub model: &'a str,
    /// Length of its body.
    pub body_bytes: u64,
    /// Tokens of its answer, if any were counted.
    pub tokens: Option<u64>,
    /// Whether it was answered with a stream; `None` where it was not answered.
    pub streamed: Option<bool>,
}

/// A request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Its path.
    pub path: &'static str,
    /// Its body, JSON.
    pub body: Vec<u8>,
    /// Whether the recorded one was over [`LONGEST`].
    pub shortened: bool,
}

/// A request of this shape; `mark` makes its prompt unlike any other. `None` where the engine has no
/// such inference route, or nothing is known of its bodies.
pub fn request(shape: &Shape<'_>, mark: &str) -> Option<Synthetic> {
    let mut routes = shape.engine.spec().routes.iter();
    let route = routes
        .find(|r| r.path == shape.path && r.verb == Verb::Post && r.kind == RouteKind::Inference)?;
    let bare = body(route.path, shape, String::new())?;
    let wanted = shape.body_bytes.min(LONGEST) as usize;
    let room = wanted.saturating_sub(bare.to_string().len());
    let body = body(route.path, shape, prompt(mark, room))?;
    Some(Synthetic {
        path: route.path,
        body: body.to_string().into_bytes(),
        shortened: shape.body_bytes > LONGEST,
    })
}

/// Text of this length, or as long as the mark where that is longer: no prompt at all would mean
/// something else. Nothing in it is escaped in JSON.
fn prompt(mark: &str, length: usize) -> String {
    let mut text = format!("{mark}: ");
    let short = text.len();
    while text.len() < length {
        text.push_str(WORDS);
    }
    text.truncate(length.max(short));
    text
}

fn body(path: &str, shape: &Shape<'_>, prompt: String) -> Option<Value> {
    let model = shape.model;
    // Nothing was counted where nothing was answered: then the least is asked for.
    let tokens = shape.tokens.unwrap_or(1).clamp(1, MOST_TOKENS);
    // A stream shows more, so that is what an unanswered one becomes.
    let stream = shape.streamed.unwrap_or(true);
    let messages = |text: String| json!([{"role": "user", "content": text}]);
    let options = json!({"num_predict": tokens});
    let mut body = match path {
        "/api/generate" => json!({"prompt": prompt, "stream": stream, "options": options}),
        "/api/chat" => json!({"messages": messages(prompt), "stream": stream, "options": options}),
        "/v1/completions" => json!({"prompt": prompt, "max_tokens": tokens, "stream": stream}),
        "/v1/chat/completions" | "/v1/messages" => {
            json!({"messages": messages(prompt), "max_tokens": tokens, "stream": stream})
        },
        "/v1/responses" => {
            json!({"input": prompt, "max_output_tokens": tokens, "stream": stream})
        },
        "/api/embed" | "/v1/embeddings" => json!({"input": prompt}),
        "/api/embeddings" => json!({"prompt": prompt}),
        _ => return None,
    };
    body["model"] = json!(model);
    let completions = matches!(path, "/v1/completions" | "/v1/chat/completions");
    if completions && stream {
        // Without it OpenAI's streams tell no counts.
        body["stream_options"] = json!({"include_usage": true});
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::super::model_scan;
    use super::*;

    fn shape<'a>(engine: &str, path: &'a str) -> Shape<'a> {
        Shape {
            engine: EngineId::parse(engine).unwrap(),
            path,
            model: "a \"model\":8b",
            body_bytes: 400,
            tokens: Some(77),
            streamed: Some(true),
        }
    }

    fn json(s: &Synthetic) -> Value {
        serde_json::from_slice(&s.body).unwrap()
    }

    #[test]
    fn every_inference_route_of_every_engine_has_a_body_of_the_recorded_length() {
        let mut seen = 0;
        for engine in EngineId::all() {
            for route in engine.spec().routes {
                let shape = shape(engine.as_str(), route.path);
                let made = request(&shape, "replay 1-2");
                if route.kind != RouteKind::Inference {
                    assert_eq!(made, None, "{}", route.path);
                    continue;
                }
                let made = made.unwrap_or_else(|| panic!("no body for {}", route.path));
                assert_eq!(made.body.len(), 400, "{}", route.path);
                assert_eq!(json(&made)["model"], shape.model);
                assert!(!made.shortened);
                seen += 1;
            }
        }
        assert_eq!(seen, 9 + 5 + 5);
    }

    #[test]
    fn each_dialect_asks_for_the_recorded_tokens_in_its_own_way() {
        for (path, pointer) in [
            ("/api/chat", "/options/num_predict"),
            ("/api/generate", "/options/num_predict"),
            ("/v1/chat/completions", "/max_tokens"),
            ("/v1/completions", "/max_tokens"),
            ("/v1/messages", "/max_tokens"),
            ("/v1/responses", "/max_output_tokens"),
        ] {
            let mut shape = shape("ollama", path);
            let made = json(&request(&shape, "x").unwrap());
            assert_eq!(made.pointer(pointer), Some(&json!(77)), "{path}");
            assert_eq!(made["stream"], true, "{path}");
            (shape.tokens, shape.streamed) = (None, Some(false));
            let made = json(&request(&shape, "x").unwrap());
            assert_eq!(made.pointer(pointer), Some(&json!(1)), "{path}");
            assert_eq!(made["stream"], false, "{path}");
            assert!(made.get("stream_options").is_none(), "{path}");
            shape.tokens = Some(u64::MAX);
            let made = json(&request(&shape, "x").unwrap());
            assert_eq!(made.pointer(pointer), Some(&json!(MOST_TOKENS)), "{path}");
        }
    }

    #[test]
    fn a_tiny_request_still_says_something_and_a_huge_one_is_shortened() {
        let mut shape = shape("ollama", "/api/generate");
        shape.body_bytes = 0;
        let made = request(&shape, "replay 3-4").unwrap();
        assert_eq!(json(&made)["prompt"], "replay 3-4: ");
        shape.body_bytes = u64::MAX;
        let made = request(&shape, "replay 3-4").unwrap();
        assert_eq!((made.body.len() as u64, made.shortened), (LONGEST, true));
    }

    #[test]
    fn two_prompts_differ_from_their_first_words_on() {
        let shape = shape("llamacpp", "/v1/embeddings");
        let [a, b] = ["replay 1-1", "replay 1-2"].map(|m| request(&shape, m).unwrap());
        assert_ne!(a, b);
        assert!(
            json(&a)["input"]
                .as_str()
                .unwrap()
                .starts_with("replay 1-1: this text")
        );
    }

    #[test]
    fn an_unknown_path_has_no_body() {
        for path in [
            "/api/pull",
            "/v1/models",
            "/api/chat/",
            "",
            "/v1/audio/speech",
        ] {
            assert_eq!(request(&shape("ollama", path), "x"), None, "{path}");
        }
        assert_eq!(request(&shape("lmstudio", "/api/chat"), "x"), None);
    }

    #[test]
    fn the_model_is_found_in_it_as_in_any_request() {
        let made = request(&shape("ollama", "/v1/messages"), "x").unwrap();
        let found = model_scan::scan(&made.body);
        assert_eq!(found.as_deref(), Some("a \"model\":8b"));
    }
}
