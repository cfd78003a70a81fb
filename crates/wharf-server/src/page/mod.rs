//! Serves the files of the web page, which every browser may read since they hold no data (rule
//! 19.1).
//!
//! The folder `page` of this crate has the files as browsers get them, without a build step.

mod files;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use bytes::Bytes;
use wharf_api::ErrorCode;
use wharf_config::Auth;

use crate::App;
use crate::fault::Fault;
use files::PAGE_FILES;

/// Stands in the files for the version, which is part of the addresses of all files but the first
/// ones.
const VERSION_WORD: &str = "VERSION";
/// Stands in the first file for the setting `auth`.
const AUTH_WORD: &str = "AUTH";
/// Characters of the version and of entity tags.
const TAG_CHARS: usize = 20;
/// Smaller files are not compressed.
const MIN_COMPRESSED_BYTES: usize = 512;

/// For files whose address has their version in it.
const CACHE_FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// For files whose address stays: the browser asks each time whether they have changed.
const CACHE_AND_ASK: HeaderValue = HeaderValue::from_static("no-cache");

/// A file as it is sent.
#[derive(Debug)]
struct PageFile {
    name: &'static str,
    media_type: HeaderValue,
    entity_tag: HeaderValue,
    plain: Bytes,
    compressed: Option<Bytes>,
}

/// All files, with the version of the whole.
#[derive(Debug)]
struct PageBundle {
    version: String,
    files: Vec<PageFile>,
    /// The policy for the first file, whose only inline script is named by its hash.
    content_policy: HeaderValue,
    /// The first file with each value of `auth`.
    open_index: PageFile,
    closed_index: PageFile,
}

static PAGE_BUNDLE: LazyLock<PageBundle> = LazyLock::new(PageBundle::build);

impl PageBundle {
    fn build() -> Self {
        let mut hasher = blake3::Hasher::new();
        for (name, content) in PAGE_FILES {
            hasher
                .update(name.as_bytes())
                .update(&content.len().to_le_bytes())
                .update(content);
        }
        let version = shorten_tag(&hasher.finalize());
        let files = PAGE_FILES
            .iter()
            .map(|(name, content)| PageFile::new(name, with_version(name, content, &version)));
        let files: Vec<_> = files.collect();
        let index = files
            .iter()
            .find(|file| file.name == "index.html")
            .map(|file| file.plain.clone());
        let index = String::from_utf8_lossy(&index.unwrap_or_default()).into_owned();
        let index_with =
            |auth: &str| PageFile::new("index.html", index.replace(AUTH_WORD, auth).into());
        let open_index = index_with("none");
        let closed_index = index_with("token");
        Self {
            version,
            files,
            content_policy: build_content_policy(&index),
            open_index,
            closed_index,
        }
    }

    fn find(&self, name: &str) -> Option<&PageFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

impl PageFile {
    fn new(name: &'static str, plain: Bytes) -> Self {
        let tag = shorten_tag(&blake3::hash(&plain));
        let media_type = HeaderValue::from_static(media_type_of(name));
        let is_text = media_type_of(name) != "image/png";
        let compressed = (is_text && plain.len() >= MIN_COMPRESSED_BYTES)
            .then(|| compress(&plain))
            .flatten();
        let entity_tag =
            HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self { name, media_type, entity_tag, plain, compressed }
    }

    /// Returns the file, or 304 if the browser has it.
    fn respond(&self, request: &HeaderMap, caching: HeaderValue) -> Response {
        let known = request
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let tag = self.entity_tag.to_str().unwrap_or_default();
        let has_it = known
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().trim_start_matches("W/") == tag);
        let mut response = match &self.compressed {
            _ if has_it => StatusCode::NOT_MODIFIED.into_response(),
            Some(compressed) if takes_gzip(request) => {
                let mut response = Body::from(compressed.clone()).into_response();
                response
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            Some(_) | None => Body::from(self.plain.clone()).into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.media_type.clone());
        headers.insert(header::ETAG, self.entity_tag.clone());
        headers.insert(header::CACHE_CONTROL, caching);
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let same_origin = HeaderValue::from_static("same-origin");
        headers.insert(HeaderName::from_static("cross-origin-resource-policy"), same_origin);
        response
    }
}

/// Returns the routes of the page's files.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(show_index))
        .route("/sw.js", get(show_service_worker))
        .route("/manifest.webmanifest", get(show_manifest))
        .route("/page/{version}/{*name}", get(show_file))
}

async fn show_index(State(app): State<App>, request: HeaderMap) -> Response {
    let bundle = &*PAGE_BUNDLE;
    let file = match app.host.config().auth {
        Auth::None => &bundle.open_index,
        Auth::Token => &bundle.closed_index,
    };
    let mut response = file.respond(&request, CACHE_AND_ASK);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, bundle.content_policy.clone());
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let same_origin = HeaderValue::from_static("same-origin");
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), same_origin);
    response
}

async fn show_service_worker(request: HeaderMap) -> Response {
    respond_with("sw.js", &request, CACHE_AND_ASK)
}

async fn show_manifest(request: HeaderMap) -> Response {
    respond_with("manifest.webmanifest", &request, CACHE_AND_ASK)
}

/// Shows a file. A tab that was opened before an upgrade asks for an older version and gets the
/// newer file.
async fn show_file(Path((version, name)): Path<(String, String)>, request: HeaderMap) -> Response {
    let caching = if version == PAGE_BUNDLE.version { CACHE_FOR_EVER } else { CACHE_AND_ASK };
    respond_with(&name, &request, caching)
}

fn respond_with(name: &str, request: &HeaderMap, caching: HeaderValue) -> Response {
    match PAGE_BUNDLE.find(name) {
        Some(file) => file.respond(request, caching),
        None => Fault::new(ErrorCode::UNKNOWN_ROUTE, "the page has no such file").into_response(),
    }
}

/// Returns the policy of the page: its own scripts and styles, no markup from text, no other page
/// around it.
fn build_content_policy(index: &str) -> HeaderValue {
    let inline = index
        .split_once("<script type=\"importmap\">")
        .and_then(|(_, rest)| rest.split_once("</script>"));
    let hash =
        inline.map(|(script, _)| ring::digest::digest(&ring::digest::SHA256, script.as_bytes()));
    let mut scripts = "'self'".to_owned();
    if let Some(hash) = hash {
        let hash = base64::engine::general_purpose::STANDARD.encode(hash);
        let _ = write!(scripts, " 'sha256-{hash}'");
    }
    let policy = format!(
        "default-src 'none'; script-src {scripts}; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
         manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types wharf-worker"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

fn with_version(name: &str, content: &'static [u8], version: &str) -> Bytes {
    if !matches!(name, "index.html" | "manifest.webmanifest" | "sw.js") {
        return Bytes::from_static(content);
    }
    String::from_utf8_lossy(content).replace(VERSION_WORD, version).into()
}

fn shorten_tag(hash: &blake3::Hash) -> String {
    hash.to_hex().chars().take(TAG_CHARS).collect()
}

fn compress(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

fn takes_gzip(request: &HeaderMap) -> bool {
    let accepted = request
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|word| {
        let (coding, quality) = word.trim().split_once(';').unwrap_or((word.trim(), ""));
        coding.eq_ignore_ascii_case("gzip") && quality.trim() != "q=0"
    })
}

fn media_type_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        Some(_) | None => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests;
