//! A2A over gRPC: frames of messages, and what is refused.
//!
//! ```text
//!   body   = frame, frame, …      frame = 0, length in 4 bytes, message of protobuf
//!   status = grpc-status, grpc-message, grpc-status-details-bin (google.rpc.Status with the kind of error)
//! ```
//!
//! Messages are not compressed in either direction.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use prost::Message as _;

use super::error::ErrorKind;
use super::proto;

/// What the paths of all methods begin with.
pub const SERVICE: &str = "/lf.a2a.v1.A2AService";
pub const CONTENT_TYPE: &str = "application/grpc";
/// What a message may also be announced as.
pub const CONTENT_TYPE_PROTO: &str = "application/grpc+proto";

pub const STATUS: &str = "grpc-status";
pub const MESSAGE: &str = "grpc-message";
pub const DETAILS: &str = "grpc-status-details-bin";
pub const ENCODING: &str = "grpc-encoding";

const HEAD_BYTES: usize = 5;
/// The message is sent as a header; longer ones are cut.
const MESSAGE_CHARS_MAX: usize = 1_000;
const DETAILS_BYTES_MAX: usize = 16 << 10;
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const DOMAIN: &str = "a2a-protocol.org";

/// One message as a frame.
pub fn frame(message: &impl prost::Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut frame = Vec::with_capacity(HEAD_BYTES + length);
    frame.push(0);
    frame.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&message.encode_to_vec());
    frame
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The peer compresses messages, although no encoding was offered.
    Compressed,
    TooLong,
    /// The body ends within a frame.
    Cut,
    /// A request has one message.
    NotOne,
    Message(String),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::Compressed => out.write_str("the message is compressed; send it without compression"),
            FrameError::TooLong => out.write_str("the message is too long"),
            FrameError::Cut => out.write_str("the body ends within a message"),
            FrameError::NotOne => out.write_str("the body must have one message"),
            FrameError::Message(why) => write!(out, "the message cannot be read: {why}"),
        }
    }
}

/// The frames of a body that arrives in pieces.
#[derive(Debug)]
pub struct Frames {
    arrived: Vec<u8>,
    bytes_max: usize,
}

impl Frames {
    pub fn new(bytes_max: usize) -> Frames {
        Frames { arrived: Vec::new(), bytes_max }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// The next message that is complete.
    pub fn next_message<M: prost::Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let Some((head, rest)) = self.arrived.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [flags, length @ ..] = *head;
        if flags != 0 {
            return Err(FrameError::Compressed);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > self.bytes_max {
            return Err(FrameError::TooLong);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = M::decode(message).map_err(|error| FrameError::Message(error.to_string()))?;
        self.arrived.drain(..HEAD_BYTES + length);
        Ok(Some(message))
    }

    /// Whether nothing is left of an unfinished frame.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }
}

/// The message of a body that has exactly one.
pub fn read_one<M: prost::Message + Default>(body: &[u8]) -> Result<M, FrameError> {
    let mut frames = Frames::new(body.len());
    frames.push(body);
    match frames.next_message() {
        Ok(Some(message)) if frames.is_empty() => Ok(message),
        Ok(Some(_)) => Err(FrameError::NotOne),
        Ok(None) if body.is_empty() => Err(FrameError::NotOne),
        // A length beyond the body is a body that ends early.
        Ok(None) | Err(FrameError::TooLong) => Err(FrameError::Cut),
        Err(error) => Err(error),
    }
}

/// The number of a status as `google.rpc.Code` names it.
pub fn code_of(status: &str) -> u32 {
    match status {
        "OK" => 0,
        "CANCELLED" => 1,
        "INVALID_ARGUMENT" => 3,
        "DEADLINE_EXCEEDED" => 4,
        "NOT_FOUND" => 5,
        "PERMISSION_DENIED" => 7,
        "RESOURCE_EXHAUSTED" => 8,
        "FAILED_PRECONDITION" => 9,
        "UNIMPLEMENTED" => 12,
        "INTERNAL" => 13,
        "UNAVAILABLE" => 14,
        "UNAUTHENTICATED" => 16,
        _ => 2,
    }
}

/// What a refused call ends with: names and values of trailers.
pub fn trailers(kind: ErrorKind, message: &str) -> [(&'static str, String); 3] {
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    let code = code_of(kind.status);
    let info = proto::ErrorInfo { reason: kind.reason.to_owned(), domain: DOMAIN.to_owned() };
    let details = vec![proto::Any { type_url: ERROR_INFO.to_owned(), value: info.encode_to_vec() }];
    let status = proto::Status { code: i32::try_from(code).unwrap_or(2), message: message.clone(), details };
    [(STATUS, code.to_string()), (MESSAGE, percent_encoded(&message)), (DETAILS, STANDARD_NO_PAD.encode(status.encode_to_vec()))]
}

/// How a call ended, as its trailers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    pub code: u32,
    pub kind: Option<ErrorKind>,
    pub message: String,
}

/// Reads it from what finds a trailer by its name. `None`: there is no status.
pub fn ending<'h>(trailer: impl Fn(&str) -> Option<&'h str>) -> Option<Ending> {
    let code = trailer(STATUS)?.trim().parse().ok()?;
    let details = trailer(DETAILS).filter(|text| text.len() <= DETAILS_BYTES_MAX).and_then(|text| decoded(text.trim()));
    let status = details.and_then(|bytes| proto::Status::decode(bytes.as_slice()).ok());
    let infos = status.iter().flat_map(|status| &status.details).filter(|detail| detail.type_url.ends_with("/google.rpc.ErrorInfo"));
    let mut infos = infos.filter_map(|detail| proto::ErrorInfo::decode(detail.value.as_slice()).ok());
    let kind = infos.find_map(|info| ErrorKind::named(&info.reason));
    let message: String = percent_decoded(trailer(MESSAGE).unwrap_or_default()).chars().take(MESSAGE_CHARS_MAX).collect();
    Some(Ending { code, kind, message })
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text).or_else(|_| STANDARD.decode(text)).ok()
}

/// Printable ASCII as it is; `%` and everything else by its bytes.
fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| if (b' '..=b'~').contains(&byte) && byte != b'%' { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

fn percent_decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, more @ ..] = rest {
        let pair = more.get(..2).filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        bytes.push(pair.unwrap_or(*first));
        rest = &more[if pair.is_some() { 2 } else { 0 }..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::error::TASK_NOT_FOUND;
    use super::*;

    fn request(id: &str) -> proto::GetTaskRequest {
        proto::GetTaskRequest { tenant: String::new(), id: id.to_owned(), history_length: Some(2) }
    }

    #[test]
    fn frames_are_read_as_they_arrive() {
        let body = [frame(&request("a")), frame(&request("b"))].concat();
        let mut frames = Frames::new(100);
        let mut read = Vec::new();
        for byte in &body {
            frames.push(&[*byte]);
            read.extend(frames.next_message::<proto::GetTaskRequest>().unwrap());
        }
        assert_eq!((read, frames.is_empty()), (vec![request("a"), request("b")], true));
        assert_eq!(read_one(&frame(&request("a"))), Ok(request("a")));
    }

    #[test]
    fn what_is_no_single_message_is_refused() {
        let one = frame(&request("a"));
        let read = |body: &[u8]| read_one::<proto::GetTaskRequest>(body).unwrap_err();
        assert_eq!(read(&[]), FrameError::NotOne);
        assert_eq!(read(&[one.clone(), one.clone()].concat()), FrameError::NotOne);
        assert_eq!(read(&one[..4]), FrameError::Cut);
        assert_eq!(read(&one[..one.len() - 1]), FrameError::Cut);
        assert_eq!(read(&[1, 0, 0, 0, 0]), FrameError::Compressed);
        assert!(matches!(read(&[0, 0, 0, 0, 1, 0xff]), FrameError::Message(_)));
        let mut frames = Frames::new(10);
        frames.push(&[0, 0, 0, 1, 0]);
        assert_eq!(frames.next_message::<proto::Empty>(), Err(FrameError::TooLong));
    }

    #[test]
    fn a_refusal_is_read_back() {
        let sent = trailers(TASK_NOT_FOUND, "keine Aufgabe „x“: 100 %");
        let find = |name: &str| sent.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        assert!(sent.iter().all(|(_, value)| value.is_ascii()));
        let read = ending(find).unwrap();
        assert_eq!(read, Ending { code: 5, kind: Some(TASK_NOT_FOUND), message: "keine Aufgabe „x“: 100 %".to_owned() });
        assert_eq!(ending(|_| None), None);
        let broken = |name: &str| match name {
            STATUS => Some("13"),
            MESSAGE => Some("50%"),
            _ => Some("%%%"),
        };
        assert_eq!(ending(broken).unwrap(), Ending { code: 13, kind: None, message: "50%".to_owned() });
    }
}
