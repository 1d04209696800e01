// The list of promises, included by the tests of every store: `home!(NAME, OPEN)` makes a test of each promise for one store.

macro_rules! promises {
    ($(mod $file:ident { $($promise:ident,)* })*) => {
        macro_rules! home {
            ($home:ident, $open:path) => {
                mod $home {
                    $(mod $file {
                        $(#[tokio::test]
                        async fn $promise() {
                            let home = $open().await;
                            crate::$file::$promise(home.store).await;
                        })*
                    })*
                }
            };
        }
    };
}

promises! {
    mod beginnings {
        a_beginning_takes_the_thread,
        beginning_in_what_one_holds_keeps_its_fence,
        beginning_after_another_is_gone_fences_it,
        a_refused_beginning_leaves_nothing,
        what_is_over_at_once_leaves_its_thread_free,
    }
    mod cards {
        cards_are_a_users_own_most_recently_used_first,
        cards_come_in_pages,
        cards_are_found_by_all_their_words,
        a_card_shows_the_last_answer_and_the_newest_run,
    }
    mod commits {
        a_commit_is_seen_whole,
        a_refused_commit_leaves_nothing,
        lines_come_in_order,
        a_run_is_made_once,
        a_run_is_made_before_it_goes_on,
        a_new_run_is_running_unless_its_status_is_set,
        a_status_and_an_outcome_change_on_their_own,
        the_newest_snapshot_replaces_the_others,
        an_outcome_takes_the_snapshot_away,
        intents_stay_until_settled,
        an_attempt_given_up_and_the_next_share_a_moment,
        lines_of_any_size_are_read_as_they_were_written,
        a_page_of_long_lines_is_short,
        names_are_any_text,
        a_hundred_committers_at_once,
    }
    mod leases {
        claiming_makes_the_thread,
        a_held_thread_has_its_holder_and_until_when,
        a_thread_is_held_through_its_last_moment,
        a_takeover_fences_the_old_one,
        claiming_what_one_holds_gives_the_same_fence,
        an_owner_whose_lease_expired_continues_if_nobody_took_it,
        renewing_keeps_all_of_an_owner_and_nobody_else,
        renewing_nothing_is_fine,
        a_short_claim_does_not_shorten_the_others,
        what_is_given_back_is_free,
        what_is_given_back_cannot_be_written_to,
        giving_back_what_was_lost_changes_nothing,
        a_commit_can_give_back,
        fences_never_go_down,
        a_lease_is_for_its_own_thread,
        one_of_many_claims_succeeds,
    }
    mod lists {
        journals_come_in_pages,
        runs_come_newest_first,
        runs_can_be_filtered,
        long_outcomes_are_left_out_of_lists_that_want_none,
        runs_come_in_pages,
        a_run_is_as_new_as_its_last_line,
        threads_come_most_recently_used_first,
        threads_come_in_pages,
        c10_the_newest_thread_with_a_prefix_is_the_one_made_last,
        a_thread_is_called_after_its_first_run,
        messages_are_numbered_across_runs,
        stored_bytes_are_a_users_lines_and_messages,
        messages_come_in_pages,
        unknown_names_are_errors,
    }
    mod notes {
        r8_what_a_run_leaves_is_there_when_its_commit_is,
        r8_a_note_takes_the_place_of_the_one_before,
        r8_a_note_of_a_thread_is_given_there_alone,
        r8_notes_are_dropped_after_their_time,
        r8_notes_are_bounded_in_number_and_bytes,
        r7_nothing_of_one_user_is_given_to_another,
        r7_a_thread_is_its_first_users,
        r7_preferences_are_kept_until_they_are_taken_back,
        notes_can_be_forgotten,
        what_a_thread_taught_goes_with_it,
    }
    mod permissions {
        a_permission_is_there_when_its_commit_is_and_once,
        a_permission_is_for_a_definition_and_another_takes_its_place,
        a_refused_commit_allows_nothing,
        permissions_are_a_users_own_until_they_are_revoked,
        a_conversations_permission_goes_with_its_thread,
        permissions_are_bounded_in_number,
    }
    mod signals {
        signals_reach_the_holder_of_the_thread_in_order,
        signals_stay_until_accepted,
        signals_follow_the_lease,
        undelivered_signals_can_be_listed,
        a_signals_number_is_never_used_again,
        accepting_what_is_gone_is_fine,
        a_run_must_exist_to_be_sent_a_signal,
    }
    mod tokens {
        a_token_is_found_by_its_digest,
        a_token_is_over_after_its_time,
        what_was_made_with_a_token_goes_with_it,
        of_many_sessions_the_newest_are_kept,
    }
    mod records {
        a_document_is_its_users_own_and_can_be_replaced,
        documents_are_listed_in_order_by_user_and_prefix,
        documents_are_read_page_by_page,
        documents_count_as_stored_and_are_limited,
        every_user_with_stored_data_is_listed,
        what_is_listed_at_once_is_bounded,
    }
    mod retention {
        the_last_ones_are_kept,
        the_recent_ones_are_kept,
        keeping_more_than_there_are_keeps_all,
        what_is_unfinished_is_kept,
        what_is_held_is_kept_and_what_was_held_is_not,
        deleting_takes_everything_and_nothing_else,
        deleting_takes_unfinished_runs_too,
        what_is_held_cannot_be_deleted,
        names_can_be_used_again,
        deleting_many_is_complete,
    }
}
