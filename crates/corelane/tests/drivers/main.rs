//! One behaviour suite for all drivers: the contract of `corelane_seam::Driver`, case by case.
//!
//! Each case runs on two drivers of one kind that reach each other, in one thread (see `rig`). A driver that cannot run a
//! case names it, with the reason, and the case says so.
#![allow(clippy::unwrap_used)] // all of this is tests

mod bench;
mod child;
mod datagrams;
mod descriptors;
mod endings;
mod file_sends;
mod files;
mod leaving;
mod limits;
mod linux;
mod orders;
mod pipes;
mod ports;
mod rig;
mod sim;
mod skips;
mod stack;
mod streams;
mod uncopied;
mod unix;
mod waiting;
mod watches;

/// Runs the case of this path, unless this kind of driver cannot.
fn run<R: rig::Rig>(path: &str, body: impl FnOnce()) {
    let case = path.rsplit("::").next();
    match R::CANNOT.iter().find(|(cannot, _)| Some(*cannot) == case) {
        Some((_, reason)) => skips::skip(path, reason),
        None => body(),
    }
}

/// The whole suite on one kind of driver.
macro_rules! suite {
    ($module:ident: $rig:ty) => {
        mod $module {
            suite! { @cases stringify!($module), $rig;
                streams:
                    both_ends_know_both_addresses,
                    a_connection_comes_from_the_address_that_was_chosen,
                    nobody_listens_and_the_connect_says_so,
                    an_address_in_use_is_refused,
                    a_peer_over_ipv4_has_an_ipv4_address_on_any_listener,
                    bytes_arrive_whether_the_receive_was_first_or_they_were,
                    arrived_bytes_are_counted_before_they_are_received,
                    what_the_peer_has_not_taken_is_known,
                    a_receive_into_a_lease_keeps_its_data_and_its_bound,
                    the_end_comes_behind_the_bytes_and_the_other_way_stays_open,
                    an_end_that_comes_later_is_seen,
                    many_segments_of_all_kinds_leave_in_order,
                    a_slow_reader_gets_every_byte,
                    both_ways_flow_at_once,
                    echoes_cycle_through_little_memory,
                    one_collect_hands_out_a_bounded_cycle,
                    a_busy_connection_starves_nobody,
                    a_short_question_waits_for_no_round_of_what_others_have_left,
                    all_that_wait_are_accepted_batch_by_batch,
                    what_one_receive_brings_leaves_in_one_segment,
                    a_connection_that_asks_once_costs_no_wait,
                    a_question_on_a_connection_takes_one_wait_one_receive_and_one_send,
                    received_bytes_travel_on;
                orders:
                    in_whatever_order_nobody_is_forgotten;
                endings:
                    a_stopped_receive_is_cancelled_when_nothing_has_come,
                    a_stopped_receive_delivers_what_has_come,
                    stopping_what_has_ended_does_nothing,
                    accepting_stops_and_starts_again,
                    a_close_ends_what_is_under_way,
                    a_close_ends_accepting_and_datagrams,
                    a_close_in_the_same_breath_ends_each_once,
                    the_peer_sees_a_close_as_the_end,
                    the_peer_sees_a_reset_as_one,
                    a_reset_ends_a_blocked_send,
                    a_reset_is_known_where_nothing_is_received,
                    a_reset_behind_an_end_is_known,
                    a_closed_socket_is_a_name_of_nothing,
                    a_closed_file_is_a_name_of_nothing,
                    a_connect_can_be_cancelled,
                    what_a_work_had_ends_when_it_leaves,
                    a_driver_may_go_with_operations_under_way;
                leaving:
                    a_connection_at_rest_goes_to_another_driver_and_loses_nothing,
                    a_connection_goes_there_and_back_many_times,
                    bytes_that_have_arrived_go_along_and_so_does_the_end,
                    a_reset_on_the_way_is_seen_where_it_arrives,
                    a_connection_that_is_not_at_rest_stays,
                    a_connection_that_is_dropped_on_its_way_is_closed,
                    so_many_connections_are_on_their_way_at_once;
                uncopied:
                    a_large_send_is_released_behind_its_end,
                    a_short_send_is_copied_and_released_at_once,
                    memory_is_used_again_only_when_it_is_released,
                    sends_in_flight_are_released_in_their_order,
                    a_close_waits_for_what_the_system_reads_and_loses_nothing,
                    a_reset_gives_back_what_nobody_reads,
                    a_driver_may_go_while_the_system_reads_its_memory,
                    where_the_system_cannot_a_large_send_is_copied;
                pipes:
                    bytes_pass_through_a_pipe_and_no_memory,
                    behind_bytes_in_a_pipe_the_end_comes_as_ever,
                    where_there_is_no_pipe_bytes_come_into_memory,
                    a_receive_into_a_pipe_stops_as_any_other,
                    an_error_of_either_side_is_that_sides,
                    bytes_in_a_pipe_wait_for_a_slow_reader,
                    a_driver_may_go_with_bytes_in_pipes;
                datagrams:
                    a_datagram_comes_and_its_answer_goes_back,
                    a_train_of_parts_comes_as_its_datagrams,
                    the_longest_trains_go_there_and_back,
                    empty_and_largest_datagrams_come_as_they_are,
                    over_ipv6_the_largest_goes_there_and_back,
                    an_answer_comes_from_the_address_that_was_asked,
                    many_datagrams_come_in_batches,
                    what_a_socket_had_no_room_for_is_told,
                    a_datagram_to_nobody_stops_nothing,
                    a_refused_train_is_counted,
                    a_large_batch_leaves_whole,
                    a_stopped_receive_of_datagrams_ends,
                    a_batch_is_used_again,
                    one_collect_hands_out_few_batches,
                    a_question_takes_one_wait_one_receive_and_one_send,
                    a_socket_is_bound_by_an_operation,
                    what_cannot_be_bound_says_why,
                    a_socket_with_a_peer_has_that_peer_alone,
                    nobody_there_is_told_and_the_socket_goes_on,
                    a_batch_to_nobody_is_worked_off,
                    singles_to_one_peer_leave_in_one_call;
                unix:
                    a_unix_connection_echoes_and_both_ends_know_the_other,
                    a_unix_client_may_have_a_name,
                    unix_datagrams_come_with_name_and_user_and_are_answered,
                    a_unix_datagram_socket_with_a_peer_has_that_peer_alone,
                    a_unix_name_that_is_held_is_refused,
                    a_stale_unix_name_is_refused_and_can_be_taken,
                    a_unix_name_that_refuses_keeps_those_that_wait,
                    a_unix_datagram_to_nobody_and_one_without_room_are_counted,
                    a_unix_peer_that_leaves_is_seen;
                descriptors:
                    a_sockets_descriptor_can_be_told,
                    a_descriptor_becomes_readable_and_writable,
                    the_end_of_a_descriptor_is_readable,
                    a_poll_can_be_cancelled,
                    the_polls_of_a_work_that_left_end,
                    a_number_that_is_not_open_is_a_fault,
                    urgent_data_hides_nothing;
                files:
                    what_is_written_can_be_read,
                    a_file_that_is_not_there_is_not_found,
                    a_file_open_for_reading_cannot_be_written,
                    what_is_no_file_is_refused_at_once,
                    a_file_tells_what_it_is,
                    a_directory_is_listed,
                    what_was_just_written_is_warm,
                    a_directory_is_opened_where_one_is_asked_for,
                    beneath_a_directory_files_are_opened_and_made,
                    no_path_leads_out_of_a_directory,
                    links_are_not_followed_where_none_may_be,
                    beneath_what_is_no_directory_is_nothing,
                    file_operations_go_side_by_side,
                    an_offloaded_call_brings_its_value,
                    a_panic_in_an_offloaded_call_is_a_fault,
                    offloaded_calls_are_bounded,
                    who_counts_offloaded_calls_needs_none_refused;
                file_sends:
                    a_file_is_sent_by_its_path,
                    a_file_is_sent_by_a_lane_that_rests,
                    a_file_that_cannot_be_opened_is_not_sent_and_nothing_is_lost,
                    a_file_that_becomes_shorter_ends_where_it_ends,
                    a_close_ends_a_file_that_is_being_sent,
                    a_close_in_the_same_breath_ends_a_file_once,
                    a_peer_that_breaks_off_ends_a_file,
                    a_disk_that_fails_ends_a_file;
                ports:
                    frames_go_there_and_back,
                    a_receive_keeps_to_its_budget_and_loses_nothing,
                    a_stopped_receive_of_frames_ends,
                    a_stopped_receive_of_frames_delivers_what_has_come,
                    what_has_come_needs_no_free_frame,
                    a_closed_port_ends_what_is_under_way,
                    a_closed_port_is_a_name_of_nothing,
                    a_port_can_be_opened_again,
                    the_ports_of_a_work_that_left_are_closed,
                    what_no_interface_takes_is_refused,
                    who_has_no_frame_left_receives_later,
                    what_a_wrapper_loses_holds_nothing_up,
                    a_port_that_takes_its_time_to_end_holds_nobody_up,
                    packets_longer_than_a_frame_come_and_go_whole,
                    what_is_no_whole_packet_is_refused_with_all_its_frames,
                    a_budget_is_kept_to_by_whole_packets,
                    other_news_of_a_port_end_a_wait,
                    a_driver_may_go_with_a_port_open;
                watches:
                    what_happens_in_a_directory_is_told_once,
                    a_directory_that_is_moved_is_told_of_and_so_is_where_it_was,
                    all_who_watch_a_directory_are_told_and_one_can_leave,
                    a_watch_that_is_cancelled_is_not_told_of,
                    the_watches_of_a_work_that_left_end,
                    watches_are_bounded,
                    where_notices_were_lost_nothing_is_watched_any_more,
                    what_is_no_directory_is_not_watched;
                waiting:
                    without_waiting_a_collect_returns,
                    a_wait_lasts_until_its_time,
                    a_wait_ends_with_a_completion_only,
                    a_rest_brings_nothing_and_carries_out_what_was_submitted,
                    what_came_in_a_rest_is_there_behind_it,
                    a_bell_that_was_rung_ends_the_next_wait,
                    a_bell_rung_by_another_thread_wakes,
                    a_bell_outlives_its_driver;
                limits:
                    without_memory_receives_wait_and_the_driver_sleeps,
                    a_starved_receive_can_end,
                    datagrams_come_though_memory_lies_in_pieces,
                    a_driver_sleeps_though_there_is_memory_for_others,
                    refusing_new_connections_keeps_those_that_wait;
            }
            suite! { @cases_with_a_process stringify!($module), $rig;
                datagrams: a_departure_waits_for_room;
                limits: at_the_limit_of_descriptors_accepting_stops_and_goes_on;
            }

            /// What is said of a case that does not exist is forgotten at once.
            #[test]
            fn what_cannot_be_run_exists() {
                let cannot = <$rig as crate::rig::Rig>::CANNOT;
                let exists = |case| CASES.contains(case) || CASES_WITH_A_PROCESS.contains(case);
                assert!(cannot.iter().all(|(case, _)| exists(case)), "{cannot:?}");
            }
        }
    };
    (@cases $module:expr, $rig:ty; $($subject:ident: $($case:ident),+;)+) => {
        const CASES: &[&str] = &[$($(stringify!($case)),+),+];
        $($(
            #[test]
            fn $case() {
                crate::run::<$rig>(concat!($module, "::", stringify!($case)), crate::$subject::$case::<$rig>);
            }
        )+)+
    };
    (@cases_with_a_process $module:expr, $rig:ty; $($subject:ident: $($case:ident),+;)+) => {
        const CASES_WITH_A_PROCESS: &[&str] = &[$($(stringify!($case)),+),+];
        $($(
            #[test]
            fn $case() {
                let path = concat!($module, "::", stringify!($case));
                crate::run::<$rig>(path, || crate::$subject::$case::<$rig>(path));
            }
        )+)+
    };
}

suite!(on_epoll: crate::linux::LinuxRig<corelane_drivers::EpollDriver, 0>);
suite!(on_epoll_without_gro: crate::linux::LinuxRig<corelane_drivers::EpollDriver, { crate::linux::NO_GRO }>);
suite!(on_epoll_without_segment: crate::linux::LinuxRig<corelane_drivers::EpollDriver, { crate::linux::NO_SEGMENT }>);
suite!(on_epoll_without_long_trains: crate::linux::LinuxRig<corelane_drivers::EpollDriver, { crate::linux::NO_LONG_TRAINS }>);
suite!(on_epoll_without_pwait2_and_openat2: crate::linux::LinuxRig<corelane_drivers::EpollDriver, { crate::linux::NO_PWAIT2 | crate::linux::NO_OPENAT2 }>);
suite!(on_uring: crate::linux::LinuxRig<corelane_drivers::UringDriver, 0>);
suite!(on_uring_without_gro: crate::linux::LinuxRig<corelane_drivers::UringDriver, { crate::linux::NO_GRO }>);
suite!(on_uring_without_segment: crate::linux::LinuxRig<corelane_drivers::UringDriver, { crate::linux::NO_SEGMENT }>);
suite!(on_uring_without_long_trains: crate::linux::LinuxRig<corelane_drivers::UringDriver, { crate::linux::NO_LONG_TRAINS }>);
suite!(on_uring_without_no_iowait_and_openat2: crate::linux::LinuxRig<corelane_drivers::UringDriver, { crate::linux::NO_NO_IOWAIT | crate::linux::NO_OPENAT2 }>);
suite!(on_sim: crate::sim::SimRig<false>);
suite!(on_sim_when_late: crate::sim::SimRig<true>);

/// The datagrams of the suite on a stack of its own over simulated wires; all else passes through it, and is the driver's below.
mod on_stack {
    // No case of these is left out, so nothing else looks at their names.
    const _: () = assert!(!CASES.is_empty());
    suite! { @cases "on_stack", crate::stack::StackRig;
        datagrams:
            a_datagram_comes_and_its_answer_goes_back,
            a_train_of_parts_comes_as_its_datagrams,
            the_longest_trains_go_there_and_back,
            empty_and_largest_datagrams_come_as_they_are,
            over_ipv6_the_largest_goes_there_and_back,
            many_datagrams_come_in_batches,
            what_a_socket_had_no_room_for_is_told,
            a_datagram_to_nobody_stops_nothing,
            a_refused_train_is_counted,
            a_large_batch_leaves_whole,
            a_stopped_receive_of_datagrams_ends,
            a_batch_is_used_again,
            a_socket_is_bound_by_an_operation,
            what_cannot_be_bound_says_why,
            a_socket_with_a_peer_has_that_peer_alone,
            nobody_there_is_told_and_the_socket_goes_on,
            a_batch_to_nobody_is_worked_off,
            singles_to_one_peer_leave_in_one_call;
        waiting:
            a_bell_that_was_rung_ends_the_next_wait,
            a_bell_rung_by_another_thread_wakes,
            a_bell_outlives_its_driver;
        files:
            what_is_written_can_be_read,
            an_offloaded_call_brings_its_value;
        unix:
            a_unix_connection_echoes_and_both_ends_know_the_other;
    }
}
