//! One writer to a thread, and one who lost it without noticing is refused.

use baton_store::{Lease, StoreError, ThreadRow};

use crate::hand::{NOW, RunWriter, TestStore, UNTIL, claim, everything, journal, thread_id};

/// Takes a thread at a moment, for a moment.
async fn claim_at(home: &TestStore, owner: &str, now_ms: i64) -> Result<Lease, StoreError> {
    home.claim(&thread_id("t"), owner, now_ms, now_ms + 1_000).await
}

fn held(owner: &str, until_ms: i64) -> Result<Lease, StoreError> {
    Err(StoreError::Held { thread: thread_id("t"), owner: owner.to_owned(), until_ms })
}

fn fenced() -> Result<(), StoreError> {
    Err(StoreError::Fenced { thread: thread_id("t") })
}

pub(crate) async fn claiming_makes_the_thread(home: TestStore) {
    assert_eq!(home.thread(&thread_id("t")).await, Ok(None));
    let lease = claim(&home, "t", "me").await;
    assert_eq!((lease.thread, lease.owner.as_str()), (thread_id("t"), "me"));
    let wanted = ThreadRow { thread: thread_id("t"), user: None, title: String::new(), messages: 0, created_ms: NOW, updated_ms: NOW };
    assert_eq!(home.thread(&thread_id("t")).await, Ok(Some(wanted)));
}

pub(crate) async fn a_held_thread_has_its_holder_and_until_when(home: TestStore) {
    claim(&home, "t", "me").await;
    let before = everything(&home).await;
    assert_eq!(claim_at(&home, "you", NOW + 1).await, held("me", UNTIL));
    assert_eq!(everything(&home).await, before);
    home.renew("me", 5_000).await.unwrap();
    assert_eq!(claim_at(&home, "you", NOW + 1).await, held("me", 5_000));
}

pub(crate) async fn a_thread_is_held_through_its_last_moment(home: TestStore) {
    claim(&home, "t", "me").await;
    assert_eq!(claim_at(&home, "you", UNTIL).await, held("me", UNTIL));
    assert_eq!(claim_at(&home, "you", UNTIL + 1).await.unwrap().owner, "you");
}

pub(crate) async fn a_takeover_fences_the_old_one(home: TestStore) {
    let mut old = RunWriter::start(&home, "t", "r").await;
    old.lines(["mine"]).await.unwrap();
    let lease = claim_at(&home, "you", UNTIL + 1).await.unwrap();
    assert!(lease.fence > old.lease.fence);

    assert_eq!(old.lines(["too late"]).await, fenced());
    let mut new = RunWriter { lease, ..old };
    new.lines(["yours"]).await.unwrap();
    assert_eq!(journal(&home, "r").await, ["mine", "yours"]);

    // The old owner waking up and renewing does not get it back.
    home.renew("me", 9_000).await.unwrap();
    assert_eq!(claim_at(&home, "me", UNTIL + 2).await, held("you", UNTIL + 1_001));
}

pub(crate) async fn claiming_what_one_holds_gives_the_same_fence(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let again = claim_at(&home, "me", NOW + 500).await.unwrap();
    assert_eq!(again, writer.lease);
    assert_eq!(claim_at(&home, "you", NOW + 1_500).await, held("me", NOW + 1_500));
    writer.lines(["both are good"]).await.unwrap();
}

pub(crate) async fn an_owner_whose_lease_expired_continues_if_nobody_took_it(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer.at_ms = UNTIL + 5_000;
    writer.lines(["late, but nobody came"]).await.unwrap();
    assert_eq!(claim_at(&home, "me", UNTIL + 5_000).await.unwrap(), writer.lease);
}

pub(crate) async fn renewing_keeps_all_of_an_owner_and_nobody_else(home: TestStore) {
    for thread in ["a", "b"] {
        claim(&home, thread, "me").await;
    }
    claim(&home, "c", "you").await;
    home.renew("me", 9_000).await.unwrap();
    let mut taken = Vec::new();
    for thread in ["a", "b", "c"] {
        taken.push(home.claim(&thread_id(thread), "third", 9_000, 10_000).await.is_ok());
    }
    assert_eq!(taken, [false, false, true]);
    assert!(home.claim(&thread_id("a"), "third", 9_001, 10_000).await.is_ok());
}

pub(crate) async fn renewing_nothing_is_fine(home: TestStore) {
    let before = everything(&home).await;
    home.renew("me", 9_000).await.unwrap();
    assert_eq!(everything(&home).await, before);
}

pub(crate) async fn a_short_claim_does_not_shorten_the_others(home: TestStore) {
    claim(&home, "t", "me").await;
    home.claim(&thread_id("u"), "me", NOW, NOW + 1).await.unwrap();
    assert_eq!(claim_at(&home, "you", UNTIL).await, held("me", UNTIL));
}

pub(crate) async fn what_is_given_back_is_free(home: TestStore) {
    let lease = claim(&home, "t", "me").await;
    home.release(&lease).await.unwrap();
    let next = claim_at(&home, "you", NOW).await.unwrap();
    assert!(next.fence > lease.fence);
    home.release(&next).await.unwrap();
    assert!(claim_at(&home, "you", NOW).await.unwrap().fence > next.fence);
}

pub(crate) async fn what_is_given_back_cannot_be_written_to(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    home.release(&writer.lease).await.unwrap();
    assert_eq!(writer.lines(["lost"]).await, fenced());
    claim_at(&home, "me", NOW).await.unwrap();
    assert_eq!(writer.lines(["still lost"]).await, fenced());
    assert_eq!(journal(&home, "r").await, [""; 0]);
}

pub(crate) async fn giving_back_what_was_lost_changes_nothing(home: TestStore) {
    let old = claim(&home, "t", "me").await;
    let new = claim_at(&home, "you", UNTIL + 1).await.unwrap();
    home.release(&old).await.unwrap();
    assert_eq!(claim_at(&home, "me", UNTIL + 2).await, held("you", UNTIL + 1_001));
    home.release(&Lease { thread: thread_id("absent"), ..old }).await.unwrap();
    assert_eq!(home.thread(&thread_id("absent")).await, Ok(None));
    home.release(&new).await.unwrap();
    home.release(&new).await.unwrap();
}

pub(crate) async fn a_commit_can_give_back(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    writer
        .write(|commit| {
            commit.lines = vec![b"last".to_vec()];
            commit.release = true;
        })
        .await
        .unwrap();
    assert_eq!(writer.lines(["lost"]).await, fenced());
    assert!(claim_at(&home, "you", NOW).await.unwrap().fence > writer.lease.fence);
    assert_eq!(journal(&home, "r").await, ["last"]);
}

pub(crate) async fn fences_never_go_down(home: TestStore) {
    let mut last = 0;
    let mut now_ms = NOW;
    for round in 0..12 {
        let lease = claim_at(&home, ["me", "you"][round % 2], now_ms).await.unwrap();
        assert!(lease.fence > last, "round {round}");
        last = lease.fence;
        match round % 3 {
            0 => home.release(&lease).await.unwrap(),
            1 => now_ms += 1_001,
            _ => {
                // Even a thread that was deleted and created again does not restart its fences.
                now_ms += 1_001;
                home.delete_thread(&lease.thread, now_ms).await.unwrap();
            }
        }
    }
}

pub(crate) async fn a_lease_is_for_its_own_thread(home: TestStore) {
    let mut writer = RunWriter::start(&home, "t", "r").await;
    let own = writer.lease.clone();
    writer.lease = claim(&home, "u", "me").await;
    assert_eq!(writer.lines(["wrong key"]).await, Err(StoreError::Fenced { thread: thread_id("u") }));
    writer.lease = Lease { thread: thread_id("absent"), ..own.clone() };
    assert_eq!(writer.lines(["no such door"]).await, Err(StoreError::Fenced { thread: thread_id("absent") }));
    writer.lease = own;
    writer.lines(["right"]).await.unwrap();
}

pub(crate) async fn one_of_many_claims_succeeds(home: TestStore) {
    let claims: Vec<_> = (0..20)
        .map(|n| {
            let home = home.clone();
            tokio::spawn(async move { claim_at(&home, &format!("owner{n}"), NOW).await })
        })
        .collect();
    let mut got = 0;
    for claim in claims {
        match claim.await.unwrap() {
            Ok(_) => got += 1,
            Err(error) => assert!(matches!(error, StoreError::Held { .. }), "{error:?}"),
        }
    }
    assert_eq!(got, 1);
}
