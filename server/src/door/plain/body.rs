use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};

use crate::rpc::status::{NotJudged, Violation};

/// How much of a body that is too large is read and forgotten, in limits: a caller that is cut off while it sends does
/// not see the answer, and an agent without an answer goes on.
const FORGOTTEN_LIMITS: usize = 16;

/// The whole body, which has to be one of at most `limit` bytes.
///
/// # Errors
/// [`NotJudged::TooLarge`], or [`NotJudged::Invalid`] where the body breaks off.
pub(super) async fn whole<B>(mut body: B, limit: usize) -> Result<Bytes, NotJudged>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    // Most bodies come in one piece, which needs no copy.
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut read = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let description = format!("did not arrive whole: {error}");
            NotJudged::Invalid(vec![Violation { field: "body".to_owned(), description }])
        })?;
        let Ok(data) = frame.into_data() else { continue };
        read = read.saturating_add(data.len());
        if read > limit {
            (first, all) = (Bytes::new(), Vec::new());
            if read > limit.saturating_mul(FORGOTTEN_LIMITS) {
                break;
            }
        } else if read == data.len() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
                first = Bytes::new();
            }
            all.extend_from_slice(&data);
        }
    }
    match (read > limit, all.is_empty()) {
        (true, _) => Err(NotJudged::TooLarge(limit)),
        (false, true) => Ok(first),
        (false, false) => Ok(all.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, io};

    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    fn pieces(pieces: &[&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames = pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
        StreamBody::new(stream::iter(frames.collect::<Vec<_>>()))
    }

    #[tokio::test]
    async fn bodies_are_put_together_up_to_the_limit() {
        for (sent, expected) in [
            (&[][..], Ok("")),
            (&["abcd"], Ok("abcd")),
            (&["", "ab", "", "c", "d"], Ok("abcd")),
            (&["abcde"], Err(NotJudged::TooLarge(4))),
            (&["ab", "cd", "e"], Err(NotJudged::TooLarge(4))),
        ] {
            assert_eq!(whole(pieces(sent), 4).await, expected.map(Bytes::from), "{sent:?}");
        }
    }

    #[tokio::test]
    async fn what_is_too_large_is_read_on_within_reason() {
        let mut endless = 0;
        let frames = stream::repeat_with(|| {
            endless += 1;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"abcd")))
        });
        assert_eq!(whole(StreamBody::new(frames), 4).await, Err(NotJudged::TooLarge(4)));
        assert_eq!(endless, FORGOTTEN_LIMITS + 1);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_none() {
        let frames = [Ok(Frame::data(Bytes::from_static(b"{}"))), Err(io::Error::other("gone"))];
        let broken = whole(StreamBody::new(stream::iter(frames)), 4).await;
        let description = "did not arrive whole: gone".to_owned();
        assert_eq!(broken, Err(NotJudged::Invalid(vec![Violation { field: "body".to_owned(), description }])));
    }
}
