//! Which of several addresses answers (data plane 3.4).
//!
//! Owns: the connects. Leaves to others: the cache (`state::confirm`), the ranking
//! (`rules::addresses`).

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long an address has to accept.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connects to all addresses at once; the best-ranked one that accepted, not the fastest.
pub async fn best_answering(addresses: &[String], port: u16) -> Option<String> {
    let mut dials = JoinSet::new();
    for (rank, address) in addresses.iter().cloned().enumerate() {
        dials.spawn(async move {
            let host = address.trim_matches(['[', ']']).to_owned();
            let dial = TcpStream::connect((host, port));
            matches!(timeout(PATIENCE, dial).await, Ok(Ok(_))).then_some(rank)
        });
    }
    let ranks = dials.join_all().await;
    let best = ranks.into_iter().flatten().min()?;
    Some(addresses[best].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_best_ranked_address_that_accepts_wins() {
        let l = tokio::net::TcpListener::bind("127.0.0.3:0").await.unwrap();
        let port = l.local_addr().unwrap().port();
        let all = ["127.0.0.2", "127.0.0.3"].map(String::from);
        assert_eq!(
            best_answering(&all, port).await.as_deref(),
            Some("127.0.0.3")
        );
        drop(l);
        assert_eq!(best_answering(&all, port).await, None);
    }
}
