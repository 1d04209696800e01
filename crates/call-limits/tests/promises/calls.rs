//! What every implementation of call limits does. Members are processes; the clock is the implementation's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_call_limits::{CallLimits, Decision, Ended, Limit, Report, UserCalls};

type Limits = Arc<dyn CallLimits>;

const OPEN_MS: u64 = 400;

fn limit() -> Limit {
    Limit { name: "provider".to_owned(), calls_max: 4, calls_per_minute_max: None, failures_max: 3, open_ms: OPEN_MS }
}

fn calls(user: &str, running: u32, waiting: u32) -> UserCalls {
    UserCalls { user: user.to_owned(), running, waiting }
}

async fn report(limits: &Limits, limit: &Limit, member: &str, users: &[UserCalls], ended: Ended) -> Decision {
    limits.exchange(Report { limit: limit.clone(), member: member.to_owned(), users: users.to_vec(), ended }).await.unwrap()
}

/// How many calls may begin, for a report in which none ended.
async fn granted(limits: &Limits, limit: &Limit, member: &str, users: &[UserCalls]) -> u32 {
    report(limits, limit, member, users, Ended::default()).await.grants.values().sum()
}

fn failed(failures: u32) -> Ended {
    Ended { has_answer: false, failures }
}

fn answered() -> Ended {
    Ended { has_answer: true, failures: 0 }
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

pub(crate) async fn no_more_calls_at_once_than_allowed(limits: Limits) {
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 3)]).await, 3);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 3)]).await, 1);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 1, 2)]).await, 0);
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 3, 5)]).await, 0);
}

pub(crate) async fn what_a_member_ends_another_gets(limits: Limits) {
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 4)]).await, 4);
    let waits = report(&limits, &limit(), "right", &[calls("bob", 0, 2)], Ended::default()).await;
    assert!(waits.grants.is_empty() && waits.again_ms.is_some_and(|ms| ms <= 1_000), "{waits:?}");
    // Bob gets both: ada has more, although she waits too.
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 2, 2)]).await, 0);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 2)]).await, 2);
    assert_eq!(granted(&limits, &limit(), "left", &[]).await, 0);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 2, 5)]).await, 2);
}

pub(crate) async fn the_rate_holds_for_all_members_together(limits: Limits) {
    // 10 at once after a pause and 1.5 in a second; one at first.
    let limit = Limit { calls_max: 1_000, calls_per_minute_max: Some(100), ..limit() };
    let (burst, per_ms) = limit.rate().unwrap();
    assert!(burst + per_ms * 60_000.0 <= 101.0 && burst >= 1.0);
    let (mut total, began) = (0, Instant::now());
    while began.elapsed() < Duration::from_millis(1_500) {
        for (member, user) in [("left", "ada"), ("right", "bob")] {
            let decision = report(&limits, &limit, member, &[calls(user, 0, 50)], Ended::default()).await;
            total += decision.grants.values().sum::<u32>();
            assert!(decision.again_ms.is_some_and(|ms| ms > 0), "{decision:?}");
        }
        pause(20).await;
    }
    let most = 1.0 + per_ms * began.elapsed().as_millis() as f64;
    assert!((2..=most.floor() as u32).contains(&total), "{total} calls of at most {most}");
}

pub(crate) async fn free_calls_go_to_the_user_with_the_fewest(limits: Limits) {
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 100)]).await, 4);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 100)]).await, 0);
    // Ada ends two: bob gets both, then each has as many as the other.
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 2, 98)]).await, 0);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 100)]).await, 2);
    // The next one to end is replaced by a call of the same user.
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 1, 98)]).await, 1);
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 1, 98)]).await, 1);
}

pub(crate) async fn users_take_turns(limits: Limits) {
    let limit = Limit { calls_max: 1, ..limit() };
    let (mut ada, mut bob, mut cleo) = (100, 100, 100);
    let mut order = String::new();
    // Each call has ended by the time of the next report.
    for _ in 0..12 {
        let left = report(&limits, &limit, "left", &[calls("ada", 0, ada), calls("bob", 0, bob)], Ended::default()).await;
        let right = report(&limits, &limit, "right", &[calls("cleo", 0, cleo)], Ended::default()).await;
        for (user, count) in left.grants.into_iter().chain(right.grants) {
            assert_eq!(count, 1);
            match user.as_str() {
                "ada" => ada -= 1,
                "bob" => bob -= 1,
                _ => cleo -= 1,
            }
            order.push_str(&user[..1]);
        }
    }
    let shares = [100 - ada, 100 - bob, 100 - cleo];
    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 2, "{order}");
    assert!(shares.iter().sum::<u32>() >= 6, "{order}");
}

pub(crate) async fn a_breaker_is_open_for_all_members(limits: Limits) {
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 2)]).await, 2);
    report(&limits, &limit(), "left", &[], failed(2)).await;
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 1)]).await, 1);
    let left = report(&limits, &limit(), "right", &[calls("bob", 0, 1)], failed(1)).await;
    assert!(left.grants.is_empty() && left.open_for_ms.is_some_and(|ms| ms > 0 && ms <= OPEN_MS), "{left:?}");
    let right = report(&limits, &limit(), "left", &[calls("ada", 0, 3)], Ended::default()).await;
    assert!(right.grants.is_empty() && right.open_for_ms.is_some(), "{right:?}");
    // Late failures do not keep it open.
    report(&limits, &limit(), "left", &[], failed(9)).await;
    pause(OPEN_MS + 20).await;
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 3)]).await, 1);
}

pub(crate) async fn one_call_of_all_members_tries_again(limits: Limits) {
    report(&limits, &limit(), "left", &[], failed(3)).await;
    pause(OPEN_MS + 20).await;
    let nobody = report(&limits, &limit(), "left", &[], Ended::default()).await;
    assert!(nobody.grants.is_empty() && !nobody.is_probe, "{nobody:?}");
    let first = report(&limits, &limit(), "left", &[calls("ada", 0, 2), calls("bob", 0, 2)], Ended::default()).await;
    assert!(first.is_probe && first.grants.values().sum::<u32>() == 1, "{first:?}");
    assert_eq!(first.open_for_ms, Some(limit().retry_ms()), "the others are refused");
    let other = report(&limits, &limit(), "right", &[calls("bob", 0, 1)], Ended::default()).await;
    assert!(other.grants.is_empty() && other.open_for_ms == Some(limit().retry_ms()), "{other:?}");
    // The member that tries is gone: another one may.
    pause(limit().probe_ms() + 20).await;
    let next = report(&limits, &limit(), "right", &[calls("bob", 0, 1)], Ended::default()).await;
    assert!(next.is_probe && next.grants.values().sum::<u32>() == 1, "{next:?}");
}

pub(crate) async fn an_answer_closes_it_for_all(limits: Limits) {
    report(&limits, &limit(), "left", &[], failed(3)).await;
    pause(OPEN_MS + 20).await;
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 1)]).await, 1);
    report(&limits, &limit(), "left", &[], answered()).await;
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 3)]).await, 3);
    report(&limits, &limit(), "right", &[calls("bob", 3, 0)], failed(2)).await;
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 1)]).await, 1, "failures are counted from 0 again");
}

pub(crate) async fn a_failed_try_opens_it_again(limits: Limits) {
    report(&limits, &limit(), "left", &[], failed(3)).await;
    pause(OPEN_MS + 20).await;
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 1)]).await, 1);
    report(&limits, &limit(), "left", &[], failed(1)).await;
    let refused = report(&limits, &limit(), "right", &[calls("bob", 0, 1)], Ended::default()).await;
    assert!(refused.grants.is_empty() && refused.open_for_ms.is_some_and(|ms| ms > limit().retry_ms()), "{refused:?}");
}

pub(crate) async fn failures_must_be_in_a_row(limits: Limits) {
    for _ in 0..3 {
        report(&limits, &limit(), "left", &[], failed(2)).await;
        report(&limits, &limit(), "right", &[], Ended { has_answer: true, failures: 1 }).await;
        assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 1)]).await, 1);
        report(&limits, &limit(), "left", &[], answered()).await;
    }
}

pub(crate) async fn limits_of_other_names_are_separate(limits: Limits) {
    let other = Limit { name: "another".to_owned(), ..limit() };
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 9)]).await, 4);
    report(&limits, &limit(), "left", &[calls("ada", 4, 0)], failed(9)).await;
    assert_eq!(granted(&limits, &other, "left", &[calls("ada", 0, 9)]).await, 4);
}

pub(crate) async fn a_repeated_report_takes_nothing_more(limits: Limits) {
    // As after a decision that was lost: the member still reports that it runs none.
    for _ in 0..3 {
        assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 3)]).await, 3);
    }
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 3)]).await, 1);
}

pub(crate) async fn offers_that_nobody_waits_for_are_given_to_others(limits: Limits) {
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 4)]).await, 4);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 4)]).await, 0);
    assert_eq!(granted(&limits, &limit(), "left", &[]).await, 0);
    // All four are offered to bob, who has gone meanwhile.
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 4)]).await, 0);
    assert_eq!(granted(&limits, &limit(), "right", &[calls("bob", 0, 1)]).await, 1);
    assert_eq!(granted(&limits, &limit(), "left", &[calls("ada", 0, 4)]).await, 3);
}
