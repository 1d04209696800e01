//! Whose reads they are. Reads of one user wait behind one another, where the storage is shared with others.

use graph::UserId;

tokio::task_local! {
    static READER: UserId;
}

/// What is read while `work` is polled is read for this user. Reads without a user are those of the program itself.
pub async fn reading_for<W: Future>(user: UserId, work: W) -> W::Output {
    READER.scope(user, work).await
}

/// What is read while `work` is polled, as by a task of its own, is read for the user for whom the caller reads.
pub fn reading_likewise<W: Future>(work: W) -> impl Future<Output = W::Output> {
    let user = reader();
    async move {
        match user {
            Some(user) => READER.scope(user, work).await,
            None => work.await,
        }
    }
}

/// The user whose reads they are, if there is one.
pub fn reader() -> Option<UserId> {
    READER.try_with(Clone::clone).ok()
}
