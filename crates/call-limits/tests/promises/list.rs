// The list of promises, included by the tests of every implementation: `call_limits_tests!(NAME, OPEN)` makes a test of each.

macro_rules! call_limits_tests {
    ($name:ident, $open:path) => {
        call_limits_tests!($name, $open,
            no_more_calls_at_once_than_allowed,
            what_a_member_ends_another_gets,
            the_rate_holds_for_all_members_together,
            free_calls_go_to_the_user_with_the_fewest,
            users_take_turns,
            a_breaker_is_open_for_all_members,
            one_call_of_all_members_tries_again,
            an_answer_closes_it_for_all,
            a_failed_try_opens_it_again,
            failures_must_be_in_a_row,
            limits_of_other_names_are_separate,
            a_repeated_report_takes_nothing_more,
            offers_that_nobody_waits_for_are_given_to_others,
        );
    };
    ($name:ident, $open:path, $($promise:ident,)*) => {
        mod $name {
            $(#[tokio::test]
            async fn $promise() {
                crate::calls::$promise($open().await).await;
            })*
        }
    };
}
