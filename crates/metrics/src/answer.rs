//! The answer to one request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tokio::sync::{mpsc, oneshot};

use super::browser::{Document, Query, protect};
use super::maker::Wanted;
use super::page::{PageReading, ServedPage};
use super::text;

/// The path of the metrics.
const METRICS: &str = "/metrics";
/// The path of the page for browsers.
const PAGE: &str = "/";
/// The path of what that page shows.
const STATUS: &str = "/status.json";

/// Answers requests, of whatever connection.
#[derive(Clone)]
pub(super) struct Answers {
    requests: mpsc::UnboundedSender<Wanted>,
    document: Option<Arc<Document>>,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("has_page", &self.document.is_some()).finish_non_exhaustive()
    }
}

impl Answers {
    /// With the page for browsers only if there is a `document`.
    pub(super) fn new(requests: mpsc::UnboundedSender<Wanted>, document: Option<Arc<Document>>) -> Self {
        Self { requests, document }
    }

    /// The answer to a request.
    pub(super) async fn to<B>(&self, request: &Request<B>) -> Response<PageReading> {
        let path = request.uri().path();
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let Some(document) = &self.document else {
            return match path {
                METRICS if is_read => self.metrics().await,
                METRICS => not_allowed(),
                _ => plain(StatusCode::NOT_FOUND, "not found; the metrics are at /metrics\n"),
            };
        };
        let is_local = is_by_address(request.headers());
        let mut response = match path {
            METRICS if is_read => return self.metrics().await,
            METRICS => return not_allowed(),
            PAGE | STATUS if !is_local => plain(StatusCode::FORBIDDEN, BY_ADDRESS),
            PAGE | STATUS if !is_read => not_allowed(),
            PAGE => of_type(Arc::clone(document.text()), "text/html; charset=utf-8"),
            STATUS => self.status(request.uri()).await,
            _ => plain(StatusCode::NOT_FOUND, "not found; the page is at /, the metrics are at /metrics\n"),
        };
        let is_page = path == PAGE && response.status() == StatusCode::OK;
        protect(response.headers_mut(), is_page.then_some(document));
        response
    }

    async fn metrics(&self) -> Response<PageReading> {
        self.made(Wanted::Metrics).await.map_or_else(unavailable, |page| of_type(page, text::CONTENT_TYPE))
    }

    async fn status(&self, uri: &Uri) -> Response<PageReading> {
        let query = match Query::parse(uri.query().unwrap_or_default()) {
            Ok(query) => query,
            Err(reason) => return plain(StatusCode::BAD_REQUEST, format!("{reason}\n")),
        };
        let Some(status) = self.made(Wanted::Status).await else { return unavailable() };
        of_type(Arc::new(ServedPage::from(status.json(&query))), "application/json")
    }

    /// What is made for this request; nothing if the gateway does not answer.
    async fn made<T>(&self, wanted: fn(oneshot::Sender<Option<T>>) -> Wanted) -> Option<T> {
        let (reply, made) = oneshot::channel();
        // Without a maker the reply is dropped at once.
        let _ = self.requests.send(wanted(reply));
        made.await.ok().flatten()
    }
}

/// Why a request by name is refused.
const BY_ADDRESS: &str = "this page is served by an address or as localhost alone, so that no web \
    site can read it through a name of its own\n";

/// Whether a request names the gateway by an address or as `localhost`. A browser that shows a
/// hostile site can be led here by a name of that site's (DNS rebinding), but not by an address.
fn is_by_address(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn not_allowed() -> Response<PageReading> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn unavailable() -> Response<PageReading> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the gateway does not answer, or is stopping\n")
}

fn plain(status: StatusCode, words: impl Into<ServedPage>) -> Response<PageReading> {
    let mut response = of_type(Arc::new(words.into()), "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

fn of_type(page: Arc<ServedPage>, kind: &'static str) -> Response<PageReading> {
    let mut response = Response::new(PageReading::from(page));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_by_address_or_localhost_is_local() {
        let is_local = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_str(host).expect("a header"));
            is_by_address(&headers)
        };
        for host in ["127.0.0.1:9464", "127.0.0.1", "[::1]:9464", "[::1]", "localhost:8080", "LocalHost"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["rebound.example", "rebound.example:9464", "127.0.0.1.example", "[rebound]", "", "::1]"]
        {
            assert!(!is_local(host), "{host}");
        }
        assert!(is_by_address(&HeaderMap::new()), "a browser always names the host");
    }
}
