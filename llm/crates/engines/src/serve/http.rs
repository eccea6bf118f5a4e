//! Connections: one request each, every phase of it bounded, and closed when the client keeps the server waiting.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::error::ApiError;
use super::guard::Guard;
use super::limits::{ANSWER_TIME, BODY_TIME, CONNECTIONS, GRACE, HEAD, HEAD_TIME, HEADERS, LINGER};
use super::routes::{POST, Site};
use grpo_lambda_trainer::run::stop;

/// The time after which the server looks for a signal, and for connections that took too long.
const LOOK: Duration = Duration::from_millis(200);

/// The part of a request that a connection is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    /// In the queue.
    Queue,
    Answer,
}

impl Phase {
    /// The time that a client has; none where the client waits for us.
    fn time(self) -> Option<Duration> {
        match self {
            Phase::Head => Some(HEAD_TIME),
            Phase::Body => Some(BODY_TIME),
            Phase::Queue => None,
            Phase::Answer => Some(ANSWER_TIME),
        }
    }
}

/// An open connection.
pub(super) struct Open {
    task: AbortHandle,
    phase: Phase,
    since: Instant,
}

/// The connections of a server, and what they ask.
pub(super) struct Connections {
    pub(super) site: Arc<Site>,
    pub(super) guard: Guard,
    /// The longest body of a request, in bytes.
    pub(super) longest: usize,
    pub(super) open: Mutex<Vec<Open>>,
}

impl Connections {
    /// Answers until a signal asks for the end, and then the requests that are in the queue.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        while stop::requested().is_none() {
            let came = timeout(LOOK, listener.accept()).await;
            self.close_late();
            match came {
                Ok(Ok((stream, _))) => {
                    self.close_oldest(CONNECTIONS);
                    let task = tokio::spawn(Arc::clone(&self).connection(stream)).abort_handle();
                    self.open().push(Open { task, phase: Phase::Head, since: Instant::now() });
                    // What it has sent already is read before another takes its place.
                    tokio::task::yield_now().await;
                }
                // No file descriptor is left, for one.
                Ok(Err(_)) => {
                    self.close_oldest(1);
                    sleep(LOOK).await;
                }
                Err(_) => {}
            }
        }
        drop(listener);
        self.close(|open| matches!(open.phase, Phase::Head | Phase::Body));
        // Who waits for the end of a pause would wait for ever.
        self.site.model.pause(false);
        let end = Instant::now() + GRACE;
        while self.close_late() > 0 && Instant::now() < end {
            sleep(LOOK / 10).await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, chosen: impl Fn(&Open) -> bool) {
        self.open().iter().filter(|open| chosen(open)).for_each(|open| open.task.abort());
    }

    /// Closes connections that took too long; the number of those that are left.
    fn close_late(&self) -> usize {
        self.close(|open| open.phase.time().is_some_and(|most| open.since.elapsed() > most));
        let mut open = self.open();
        open.retain(|open| !open.task.is_finished());
        open.len()
    }

    /// Closes the connection whose client has been waited for longest, if there are so many of them.
    fn close_oldest(&self, most: usize) {
        let mut open = self.open();
        let waited_for = || open.iter().enumerate().filter(|(_, open)| open.phase != Phase::Queue);
        let oldest = waited_for().min_by_key(|(_, open)| open.since).filter(|_| waited_for().count() >= most);
        if let Some((at, _)) = oldest {
            open.remove(at).task.abort();
        }
    }

    /// Begins another phase of the connection whose task this is.
    fn enter(&self, phase: Phase) {
        let own = tokio::task::id();
        if let Some(open) = self.open().iter_mut().find(|open| open.task.id() == own) {
            (open.phase, open.since) = (phase, Instant::now());
        }
    }

    async fn connection(self: Arc<Self>, mut stream: TcpStream) {
        let answer = service_fn(async |request| Ok::<_, Infallible>(self.response(request).await));
        let served = http1::Builder::new()
            .keep_alive(false)
            .max_headers(HEADERS)
            .max_header_size(HEAD)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(&mut stream), answer)
            .await;
        // A client that went away does not hear the answer.
        drop(served);
        drop(stream.shutdown().await);
        // Closed over bytes that nobody has read, the system would take the answer back.
        drop(timeout(LINGER, copy(&mut (&mut stream).take(self.longest as u64), &mut sink())).await);
    }

    async fn response(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = self.answer(request).await;
        self.enter(Phase::Answer);
        let (status, text) = match answer {
            Ok(text) => (200, text),
            Err(error) => (error.status, error.body().to_string()),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// Refuses by the head what can be, before a byte of the body is waited for.
    async fn answer(&self, request: Request<Incoming>) -> Result<String, ApiError> {
        let (head, body) = request.into_parts();
        self.guard.check(&head)?;
        let path = self.site.endpoint(head.method.as_str(), head.uri.path())?;
        self.guard.check_type(&head, &body)?;
        self.enter(Phase::Body);
        let text = if POST.contains(&path) { self.body(body).await? } else { Vec::new() };
        let place = self.site.place(path)?;
        if place.is_some() {
            self.enter(Phase::Queue);
        }
        self.site.answer(path, text).await
    }

    /// The bytes of a body, which are counted as they come.
    async fn body(&self, mut body: Incoming) -> Result<Vec<u8>, ApiError> {
        let most = self.longest;
        let too_long = || ApiError::new(413, format!("the body has more than {most} bytes (--max-body)"));
        if body.size_hint().lower() > most as u64 {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| ApiError::new(400, format!("the body cannot be read: {e}")))?;
            // Trailers say nothing here.
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Err(too_long());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }
}
