//! Requests of providers as the HTTP client takes them, and signatures of hook calls.

use std::path::Path;

use tidegate_providers::{hook::sign, request::Request};
use tracing::warn;

use crate::{
    cluster::cache::Key,
    http::{Outgoing, SafeUrl, UrlError},
};

/// A translated request. Bounds on connections count for the namespace of `key`.
pub(crate) fn outgoing(request: Request, key: &Key) -> Result<Outgoing, UrlError> {
    let url = SafeUrl::parse(&request.url.to_string())?;
    let mut outgoing = Outgoing::new(request.method, url, key.namespace.to_string());
    outgoing.headers = request.headers;
    outgoing.body = request.body.into();
    Ok(outgoing)
}

/// Signs a call with the first secret of a file. The file is read each time, since the Secret it is mounted
/// from may change. Without a secret the call goes unsigned: a receiver that wants a signature rejects it.
pub(crate) fn sign_call(outgoing: &mut Outgoing, file: &Path, now: jiff::Timestamp) {
    let secrets = std::fs::read_to_string(file);
    let Some(secret) = secrets.as_deref().ok().and_then(sign::first_secret) else {
        warn!("The secret for hooks cannot be read; the call is not signed");
        return;
    };
    let path = outgoing.url.uri().path().to_owned();
    sign::sign(&mut outgoing.headers, secret, now, &path, &outgoing.body);
}
