//! What an engine says, in each dialect.

use benchkit::mono_ns;
use bytes::{BufMut, Bytes, BytesMut};

#[derive(Clone, Copy, PartialEq)]
pub enum Dialect {
    OaiChat,
    OaiText,
    OllamaChat,
    OllamaGenerate,
}

pub fn base36(mut n: u64, out: &mut BytesMut) {
    let mut b = [0u8; 13];
    let mut i = 13;
    loop {
        i -= 1;
        b[i] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize];
        n /= 36;
        if n == 0 {
            break;
        }
    }
    out.put_slice(&b[i..]);
}

/// One token event of about `size` bytes (longer if the frame alone is longer).
pub fn token(d: Dialect, model: &str, size: usize) -> Bytes {
    let mut b = BytesMut::with_capacity(size.max(160) + 32);
    let tail: &[u8] = match d {
        Dialect::OaiChat => {
            b.put_slice(b"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"");
            b.put_slice(model.as_bytes());
            b.put_slice(b"\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
            b"\"}}]}\n\n"
        },
        Dialect::OaiText => {
            b.put_slice(
                b"data: {\"id\":\"c\",\"object\":\"text_completion\",\"created\":1,\"model\":\"",
            );
            b.put_slice(model.as_bytes());
            b.put_slice(b"\",\"choices\":[{\"index\":0,\"text\":\"");
            b"\"}]}\n\n"
        },
        Dialect::OllamaChat => {
            b.put_slice(b"{\"model\":\"");
            b.put_slice(model.as_bytes());
            b.put_slice(b"\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{\"role\":\"assistant\",\"content\":\"");
            b"\"},\"done\":false}\n"
        },
        Dialect::OllamaGenerate => {
            b.put_slice(b"{\"model\":\"");
            b.put_slice(model.as_bytes());
            b.put_slice(b"\",\"created_at\":\"2026-01-01T00:00:00Z\",\"response\":\"");
            b"\",\"done\":false}\n"
        },
    };
    b.put_u8(b'@');
    base36(mono_ns(), &mut b);
    b.put_u8(b';');
    while b.len() + tail.len() < size {
        b.put_u8(b'x');
    }
    b.put_slice(tail);
    b.freeze()
}

/// The closing events: finish reason, usage block, end marker.
pub fn closing(d: Dialect, model: &str, tokens: u32) -> Bytes {
    Bytes::from(match d {
        Dialect::OaiChat => format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"{model}\",\"choices\":[],\"usage\":{{\"prompt_tokens\":11,\"completion_tokens\":{tokens},\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
            tokens + 11
        ),
        Dialect::OaiText => format!(
            "data: {{\"id\":\"c\",\"object\":\"text_completion\",\"created\":1,\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":11,\"completion_tokens\":{tokens},\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
            tokens + 11
        ),
        Dialect::OllamaChat => format!(
            "{{\"model\":\"{model}\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"assistant\",\"content\":\"\"}},\"done_reason\":\"stop\",\"done\":true,\"total_duration\":1000000,\"load_duration\":1000,\"prompt_eval_count\":11,\"prompt_eval_duration\":1000,\"eval_count\":{tokens},\"eval_duration\":1000}}\n"
        ),
        Dialect::OllamaGenerate => format!(
            "{{\"model\":\"{model}\",\"created_at\":\"2026-01-01T00:00:00Z\",\"response\":\"\",\"done\":true,\"done_reason\":\"stop\",\"context\":[1,2,3],\"total_duration\":1000000,\"load_duration\":1000,\"prompt_eval_count\":11,\"prompt_eval_duration\":1000,\"eval_count\":{tokens},\"eval_duration\":1000}}\n"
        ),
    })
}

/// A whole (non-streamed) answer whose body is about `size` bytes.
pub fn answer(d: Dialect, model: &str, size: usize) -> Bytes {
    let (head, tail) = match d {
        Dialect::OaiChat => (
            format!("{{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\""),
            "\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":64,\"total_tokens\":75}}".to_string(),
        ),
        Dialect::OaiText => (
            format!("{{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"text\":\""),
            "\",\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":64,\"total_tokens\":75}}".to_string(),
        ),
        Dialect::OllamaChat => (
            format!("{{\"model\":\"{model}\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"assistant\",\"content\":\""),
            "\"},\"done_reason\":\"stop\",\"done\":true,\"total_duration\":1000000,\"load_duration\":1000,\"prompt_eval_count\":11,\"prompt_eval_duration\":1000,\"eval_count\":64,\"eval_duration\":1000}".to_string(),
        ),
        Dialect::OllamaGenerate => (
            format!("{{\"model\":\"{model}\",\"created_at\":\"2026-01-01T00:00:00Z\",\"response\":\""),
            "\",\"done\":true,\"done_reason\":\"stop\",\"context\":[1,2,3],\"total_duration\":1000000,\"load_duration\":1000,\"prompt_eval_count\":11,\"prompt_eval_duration\":1000,\"eval_count\":64,\"eval_duration\":1000}".to_string(),
        ),
    };
    let mut s = head;
    while s.len() + tail.len() < size {
        s.push_str("tok ");
    }
    s.push_str(&tail);
    Bytes::from(s)
}

pub fn embeddings(openai: bool, model: &str, n: usize, size: usize) -> Bytes {
    let per = (size / n.max(1)).saturating_sub(60);
    let dims = (per / 11).max(1);
    let vec: String = (0..dims)
        .map(|i| {
            format!(
                "{}0.{:07}",
                if i == 0 { "" } else { "," },
                1_000_003 + i * 7919 % 8_000_000
            )
        })
        .collect();
    let mut s = String::with_capacity(size + 200);
    if openai {
        s.push_str("{\"object\":\"list\",\"data\":[");
        for i in 0..n {
            if i > 0 {
                s.push(',');
            }
            s.push_str(&format!(
                "{{\"object\":\"embedding\",\"index\":{i},\"embedding\":[{vec}]}}"
            ));
        }
        s.push_str(&format!(
            "],\"model\":\"{model}\",\"usage\":{{\"prompt_tokens\":{n},\"total_tokens\":{n}}}}}"
        ));
    } else {
        s.push_str(&format!("{{\"model\":\"{model}\",\"embeddings\":["));
        for i in 0..n {
            if i > 0 {
                s.push(',');
            }
            s.push_str(&format!("[{vec}]"));
        }
        s.push_str(&format!(
            "],\"total_duration\":1000000,\"load_duration\":1000,\"prompt_eval_count\":{n}}}"
        ));
    }
    Bytes::from(s)
}

/// Ollama lists a model with its tag, whatever it was called by.
pub fn tagged(m: &String) -> String {
    if m.contains(':') {
        m.clone()
    } else {
        format!("{m}:latest")
    }
}
pub fn tags(models: &[String]) -> String {
    let v: Vec<String> = models
        .iter()
        .map(tagged)
        .map(|m| format!("{{\"name\":\"{m}\",\"model\":\"{m}\",\"modified_at\":\"2026-01-01T00:00:00Z\",\"size\":4000000000,\"digest\":\"sha256:{:064x}\",\"details\":{{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":\"llama\",\"families\":[\"llama\"],\"parameter_size\":\"8B\",\"quantization_level\":\"Q4_K_M\"}}}}", m.len()))
        .collect();
    format!("{{\"models\":[{}]}}", v.join(","))
}
pub fn ps(models: &[String]) -> String {
    let v: Vec<String> = models
        .iter()
        .map(tagged)
        .map(|m| format!("{{\"name\":\"{m}\",\"model\":\"{m}\",\"size\":4000000000,\"digest\":\"sha256:{:064x}\",\"expires_at\":\"2099-01-01T00:00:00Z\",\"size_vram\":4000000000}}", m.len()))
        .collect();
    format!("{{\"models\":[{}]}}", v.join(","))
}
pub fn oai_models(models: &[String]) -> String {
    let v: Vec<String> = models
        .iter()
        .map(|m| {
            format!("{{\"id\":\"{m}\",\"object\":\"model\",\"created\":1,\"owned_by\":\"mock\"}}")
        })
        .collect();
    format!("{{\"object\":\"list\",\"data\":[{}]}}", v.join(","))
}
