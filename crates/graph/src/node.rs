use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::run::Task;
use crate::{Ask, Failure, FailureKind, Reply};

/// A step of a flow over the state `S`: which effects it needs, and how their replies change the state. Both functions are pure, and a node requests
/// effects once; repeated requests are a cycle in the graph, which is visible, stored and limited.
pub trait Node<S>: Send + Sync + 'static {
    /// What the node needs, from the state alone.
    fn ask(&self, state: &S) -> Ask;
    /// What the replies mean for the state, and where to go next.
    fn fold(&self, state: &mut S, replies: &Replies<'_>) -> Go;
}

/// Two functions are a node.
impl<S, A, F> Node<S> for (A, F)
where
    A: Fn(&S) -> Ask + Send + Sync + 'static,
    F: Fn(&mut S, &Replies<'_>) -> Go + Send + Sync + 'static,
{
    fn ask(&self, state: &S) -> Ask {
        self.0(state)
    }

    fn fold(&self, state: &mut S, replies: &Replies<'_>) -> Go {
        self.1(state, replies)
    }
}

/// The next node, with notes and messages.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Go {
    pub(crate) target: Target,
    pub(crate) notes: Vec<(String, Value)>,
    pub(crate) messages: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Node(Cow<'static, str>),
    End,
    Fail(String),
}

impl Go {
    /// To another node.
    pub fn to(node: impl Into<Cow<'static, str>>) -> Self {
        Go { target: Target::Node(node.into()), notes: Vec::new(), messages: Vec::new() }
    }

    /// To the end of the run: its state is the output.
    pub fn end() -> Self {
        Go { target: Target::End, notes: Vec::new(), messages: Vec::new() }
    }

    /// Ends the run as failed, with this message for the user.
    pub fn fail(why: impl Into<String>) -> Self {
        Go { target: Target::Fail(why.into()), notes: Vec::new(), messages: Vec::new() }
    }

    /// Publishes a note to watchers: a plan, a decision, a verdict.
    pub fn note(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.notes.push((name.into(), value.into()));
        self
    }

    /// Adds a message to the thread, exactly once.
    pub fn say(mut self, role: impl Into<String>, content: impl Into<String>) -> Self {
        self.messages.push((role.into(), content.into()));
        self
    }
}

/// The replies to one ask, in the order in which it was asked, whatever order they came in.
#[derive(Clone, Copy)]
pub struct Replies<'a> {
    pub(crate) tasks: &'a [Task],
}

impl<'a> Replies<'a> {
    /// How many replies there are: one for each request.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The reply to the request at this index.
    pub fn get(&self, index: usize) -> Option<&'a Reply> {
        self.tasks.get(index).and_then(Task::answer)
    }

    /// The value of a reply, or why there is none.
    pub fn value(&self, index: usize) -> Result<&'a Value, Failure> {
        match self.get(index) {
            Some(reply) => reply.result.as_ref().map_err(Clone::clone),
            None => Err(Failure::new(FailureKind::Internal, format!("nothing was asked at index {index}"))),
        }
    }

    /// The reply as a type of the flow's own; one that does not fit is a failure like any other.
    pub fn parse<T: DeserializeOwned>(&self, index: usize) -> Result<T, Failure> {
        T::deserialize(self.value(index)?).map_err(|e| Failure::new(FailureKind::Invalid, format!("the reply does not have the expected form: {e}")))
    }

    /// All replies, in the order of the requests.
    pub fn iter(&self) -> impl Iterator<Item = &'a Reply> + use<'a> {
        self.tasks.iter().filter_map(Task::answer)
    }
}
