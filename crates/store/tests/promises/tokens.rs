//! Who may use a server: found by digest, for a while, and gone with what it was made with.

use baton_store::{NewToken, SESSIONS_MAX, TokenRow};

use crate::hand::{NOW, TestStore};

fn new(digest: u8, user: &str) -> NewToken {
    NewToken { digest: [digest; 32], user: user.into(), made_with: None, created_ms: NOW, until_ms: None, scope: None }
}

async fn user_of(home: &TestStore, digest: u8, now_ms: i64) -> Option<String> {
    home.token(&[digest; 32], now_ms).await.unwrap().map(|row| row.user.to_string())
}

pub(crate) async fn a_token_is_found_by_its_digest(home: TestStore) {
    assert_eq!(user_of(&home, 1, NOW).await, None);
    let ada = home.keep_token(new(1, "ada")).await.unwrap();
    let bob = home.keep_token(NewToken { scope: Some("read".into()), ..new(2, "bob") }).await.unwrap();
    assert_eq!((user_of(&home, 1, NOW).await.as_deref(), user_of(&home, 2, i64::MAX).await.as_deref()), (Some("ada"), Some("bob")));
    let row = |token: u64, user: &str| TokenRow { token, user: user.into(), made_with: None, created_ms: NOW, until_ms: None, scope: None };
    let of_bob = TokenRow { scope: Some("read".into()), ..row(bob, "bob") };
    assert_eq!(home.tokens().await.unwrap(), [row(ada, "ada"), of_bob.clone()]);
    assert_eq!(home.token(&[2; 32], NOW).await.unwrap(), Some(of_bob));
}

pub(crate) async fn a_token_is_over_after_its_time(home: TestStore) {
    home.keep_token(NewToken { until_ms: Some(NOW + 10), ..new(1, "ada") }).await.unwrap();
    assert_eq!(user_of(&home, 1, NOW + 9).await.as_deref(), Some("ada"));
    assert_eq!(user_of(&home, 1, NOW + 10).await, None);
    // And makes room when the next one comes.
    home.keep_token(NewToken { created_ms: NOW + 20, ..new(2, "bob") }).await.unwrap();
    assert_eq!(home.tokens().await.unwrap().len(), 1);
}

pub(crate) async fn what_was_made_with_a_token_goes_with_it(home: TestStore) {
    let ada = home.keep_token(new(1, "ada")).await.unwrap();
    let bob = home.keep_token(new(2, "bob")).await.unwrap();
    for (digest, maker) in [(11, 1), (12, 1), (21, 2)] {
        home.keep_token(NewToken { made_with: Some([maker; 32]), ..new(digest, "x") }).await.unwrap();
    }
    assert_eq!(home.tokens().await.unwrap().len(), 2, "only those that people were given are listed");
    assert_eq!(home.token(&[11; 32], NOW).await.unwrap().unwrap().made_with, Some([1; 32]));
    assert!(home.drop_token(ada).await.unwrap());
    assert!(!home.drop_token(ada).await.unwrap());
    let left = [user_of(&home, 1, NOW).await, user_of(&home, 11, NOW).await, user_of(&home, 12, NOW).await];
    assert_eq!(left, [None, None, None]);
    assert!(user_of(&home, 2, NOW).await.is_some() && user_of(&home, 21, NOW).await.is_some());
    // One alone can go as well, and numbers are never used again.
    let session = home.token(&[21; 32], NOW).await.unwrap().unwrap().token;
    assert!(home.drop_token(session).await.unwrap());
    assert!(user_of(&home, 2, NOW).await.is_some());
    home.drop_token(bob).await.unwrap();
    assert!(home.keep_token(new(3, "eve")).await.unwrap() > session);
}

pub(crate) async fn of_many_sessions_the_newest_are_kept(home: TestStore) {
    home.keep_token(new(1, "ada")).await.unwrap();
    home.keep_token(NewToken { made_with: Some([2; 32]), ..new(3, "bob") }).await.unwrap();
    let made = 10..=u8::try_from(SESSIONS_MAX).unwrap() + 10;
    for digest in made.clone() {
        home.keep_token(NewToken { made_with: Some([1; 32]), ..new(digest, "ada") }).await.unwrap();
    }
    let (first, last) = (*made.start(), *made.end());
    let found =
        [user_of(&home, first, NOW).await, user_of(&home, first + 1, NOW).await, user_of(&home, last, NOW).await, user_of(&home, 3, NOW).await];
    assert_eq!(found, [None, Some("ada".to_owned()), Some("ada".to_owned()), Some("bob".to_owned())]);
    assert!(user_of(&home, 1, NOW).await.is_some());
}
