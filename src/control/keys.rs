//! The client keys' calls of the control socket: create, list, revoke.
//!
//! Owns: their trait and handlers. Leaves to others: the keys
//! (`state::clients`), the listeners that open and close with them (`daemon`), strictness and panics
//! (`door`).

use std::sync::Arc;

use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::types::ErrorObjectOwned;

use super::server::{random, refusal};
use crate::rules::client_key::{self, ClientKey};
use crate::rules::key_form::KeyHash;
use crate::state::clients::{Clients, KeysError};
use crate::state::command::{Command, Commands};
use crate::state::query::Queries;
use crate::wall_clock;
use crate::wire::client_keys::{ClientKeyCreated, ClientKeyList, ClientKeyRevoked};
use crate::wire::control::SCHEMA_VERSION;
use crate::wire::jsonrpc::CommandError;

/// The calls.
#[rpc(server, client)]
pub trait KeysApi {
    /// Makes a key that may use this and nothing else. Shown this once.
    #[method(name = "keys/create", param_kind = map)]
    async fn keys_create(
        &self,
        name: String,
        allow: Vec<String>,
        requests_per_minute: Option<u32>,
        tokens_per_day: Option<u64>,
    ) -> RpcResult<ClientKeyCreated>;

    /// All keys, without what is secret of them.
    #[method(name = "keys/list", param_kind = map)]
    async fn keys_list(&self) -> RpcResult<ClientKeyList>;

    /// Ends a key: its next request is refused.
    #[method(name = "keys/revoke", param_kind = map)]
    async fn keys_revoke(&self, name: String) -> RpcResult<ClientKeyRevoked>;
}

/// The daemon's end of the trait.
pub(super) struct KeysHandlers {
    /// Told when keys came or went.
    pub(super) commands: Commands,
    /// Where the keys are found.
    pub(super) queries: Arc<dyn Queries>,
}

fn refused(text: impl Into<String>) -> ErrorObjectOwned {
    refusal(&CommandError::refused(text))
}

impl KeysHandlers {
    /// Does something with the keys that may write their file, off the thread that serves requests.
    async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Clients) -> Result<T, KeysError> + Send + 'static,
    ) -> RpcResult<T> {
        let none = || refused("this daemon keeps no client keys");
        let clients = self.queries.clients().ok_or_else(none)?;
        let acted = tokio::task::spawn_blocking(move || act(&clients)).await;
        acted
            .map_err(|_| refused("the call failed inside the daemon; its log has more"))?
            .map_err(|e| refused(e.to_string()))
    }

    /// The listeners follow: without a key nobody comes in beyond loopback.
    async fn reach(&self) -> RpcResult<()> {
        let reached = self.commands.call(Command::Reach).await;
        reached.map_err(|e| refusal(&e))
    }

    fn networks(&self) -> Vec<String> {
        self.queries.status().door.allowed_cidrs
    }
}

#[async_trait]
impl KeysApiServer for KeysHandlers {
    async fn keys_create(
        &self,
        name: String,
        allow: Vec<String>,
        requests_per_minute: Option<u32>,
        tokens_per_day: Option<u64>,
    ) -> RpcResult<ClientKeyCreated> {
        let secret = client_key::make(random()?);
        let hashed = client_key::secret_part(secret.reveal()).map(KeyHash::of_secret);
        let key = ClientKey {
            name,
            hash: hashed.ok_or_else(|| refused("no key could be made"))?,
            allow,
            requests_per_minute,
            tokens_per_day,
            // For people, and to tell it from another of its name.
            created_at: wall_clock::unix_ms(),
        };
        let checked = key.check();
        checked.map_err(|e| refusal(&CommandError::params(e.to_string())))?;
        let info = self.with(move |clients| clients.add(key)).await?;
        self.reach().await?;
        tracing::info!(key = info.name, allow = ?info.allow, "a client key was made");
        Ok(ClientKeyCreated {
            schema_version: SCHEMA_VERSION,
            info,
            key: secret.reveal().to_owned(),
            allowed_cidrs: self.networks(),
        })
    }

    async fn keys_list(&self) -> RpcResult<ClientKeyList> {
        let keys = self.with(Clients::list).await?;
        // A file that could not be used before may have been opened now.
        self.reach().await?;
        Ok(ClientKeyList {
            schema_version: SCHEMA_VERSION,
            keys,
            allowed_cidrs: self.networks(),
        })
    }

    async fn keys_revoke(&self, name: String) -> RpcResult<ClientKeyRevoked> {
        let info = self.with(move |clients| clients.revoke(&name)).await?;
        tracing::info!(key = info.name, "a client key was revoked");
        self.reach().await?;
        Ok(ClientKeyRevoked {
            schema_version: SCHEMA_VERSION,
            info,
        })
    }
}
