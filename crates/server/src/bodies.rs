//! Request bodies, counted by user while they arrive and until their request is answered.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use hyper::body::{Frame, SizeHint};

use crate::shared_bytes::BytesPermit;

/// The user, or the server, has as many bytes of bodies in memory as allowed.
#[derive(Debug, thiserror::Error)]
#[error("too many bytes of request bodies are in memory")]
pub(crate) struct BodiesFull;

/// A request whose body takes from the permit as it arrives. The permit is to be kept until the request is answered.
pub(crate) fn counted(request: Request, permit: BytesPermit) -> (Request, Arc<Mutex<BytesPermit>>) {
    let permit = Arc::new(Mutex::new(permit));
    let request = match request.body().is_end_stream() {
        true => request,
        false => request.map(|body| Body::new(CountedBody { body, permit: permit.clone() })),
    };
    (request, permit)
}

struct CountedBody {
    body: Body,
    permit: Arc<Mutex<BytesPermit>>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && !self.permit.lock().unwrap_or_else(PoisonError::into_inner).grow(data.len() as u64)
        {
            return Poll::Ready(Some(Err(axum::Error::new(BodiesFull))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether reading a body failed because of these limits.
pub(crate) fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<BodiesFull>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::params;
    use crate::limits::Limits;
    use crate::quota::Quota;
    use graph::UserId;
    use std::time::Duration;

    async fn read(quota: &Quota, user: &str, bytes: usize) -> (u16, Arc<Mutex<BytesPermit>>) {
        let (request, permit) = counted(Request::new(Body::from(vec![b'x'; bytes])), quota.body(&UserId::from(user)).unwrap());
        let end = params::read(request.into_body(), 1 << 20, Duration::from_secs(60)).await;
        (end.map_or_else(|problem| problem.status.as_u16(), |_| 200), permit)
    }

    #[tokio::test]
    async fn bodies_of_one_user_at_the_same_time_are_bounded() {
        let quota = Quota::new(Limits { bodies_bytes_max: 100 << 10, ..Limits::default() });
        let (first, kept) = read(&quota, "ada", 60 << 10).await;
        assert_eq!(first, 200);
        // The first is still being answered.
        assert_eq!(read(&quota, "ada", 60 << 10).await.0, 429);
        assert_eq!(read(&quota, "bob", 60 << 10).await.0, 200);
        drop(kept);
        assert_eq!(read(&quota, "ada", 60 << 10).await.0, 200);
    }

    /// Four users who may have a quarter of all bytes each send that much, slowly: other users are not affected.
    #[tokio::test]
    async fn slow_senders_with_large_bodies_leave_room_for_others() {
        let quota = Quota::new(Limits { bodies_bytes_max: 256 << 10, bodies_bytes_total_max: 1 << 20, ..Limits::default() });
        let senders: Vec<_> = (0..4)
            .map(|number| {
                let pieces = futures::stream::iter((0..32).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 8 << 10])));
                // The end never comes.
                let slow = Body::from_stream(futures::StreamExt::chain(pieces, futures::stream::pending()));
                let (request, permit) = counted(Request::new(slow), quota.body(&UserId::from(format!("slow{number}"))).unwrap());
                (tokio::spawn(params::read(request.into_body(), 1 << 20, Duration::from_secs(60))), permit)
            })
            .collect();
        // They have sent what they could.
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
        assert_eq!(read(&quota, "ada", 60 << 10).await.0, 200);
        assert_eq!(read(&quota, "bob", 100 << 10).await.0, 200);
        for (sender, permit) in senders {
            sender.abort();
            drop(permit);
        }
    }
}
