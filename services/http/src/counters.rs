//! What the service counts.

use corelane::service::{Declaration, OwnCounter};

corelane::counters! {
    /// What HTTP counts beside what all services do.
    pub enum HttpCounter {
        Answers1xx "answers_1xx" Counter "answers" "Answers with a status from 100 to 199: 100 (Continue) to clients that wait for it.";
        Answers2xx "answers_2xx" Counter "answers" "Answers with a status from 200 to 299.";
        Answers3xx "answers_3xx" Counter "answers" "Answers with a status from 300 to 399.";
        Answers4xx "answers_4xx" Counter "answers" "Answers with a status from 400 to 499: the client is at fault.";
        Answers5xx "answers_5xx" Counter "answers" "Answers with a status from 500 to 599: the server is at fault, or at a bound.";
        HeadsRefused "heads_refused" Counter "requests" "Requests refused because their head is none of HTTP/1.1, or at a bound.";
        ContentsRefused "contents_refused" Counter "requests" "Requests refused because their content is badly framed, or at a bound.";
        ContentsUnwanted "contents_unwanted" Counter "requests" "Requests that were answered though their content was not wanted: it was read and dropped, or the connection ended.";
        FilesCold "files_cold" Counter "parts" "Parts of large files that were not in the system's memory: a helper thread read them before they were sent.";
        ReadAheadMaxHits "read_ahead_max_hits" Counter "hits" "How often a part of a large file was not read ahead at once and waited for another part. Its client's address, or all addresses, had the most parts under way.";
        OpenFilesMaxHits "open_files_max_hits" Counter "requests" "Requests refused because as many large files are open as may be: each is open once, whoever is sent it.";
        AnswersCutShort "answers_cut_short" Counter "answers" "Answers whose content ended before its announced length, or whose file became another one while it was sent: the connection was broken off.";
        AnswersKept "answers_kept" Counter "answers" "Answers for which the lane had no memory: they were kept, and written when it had some.";
        AnswersKeptMaxHits "answers_kept_max_hits" Counter "hits" "How often a peer, or all peers, had their share of the answers kept for want of memory. Its next request waited for memory, or was answered with 503 (Service Unavailable).";
        ForwardsReused "forwards_reused" Counter "requests" "Requests that were sent on over a connection that had carried others.";
        ForwardsRetried "forwards_retried" Counter "requests" "Requests that were sent on once more: the server could not be connected to, or had closed a connection just as it was used again.";
        ForwardsFailed "forwards_failed" Counter "requests" "Requests for which the server behind had no answer that is one, or no whole one: answered with 502 (Bad Gateway), or broken off.";
        ForwardsTimedOut "forwards_timed_out" Counter "requests" "Requests whose server behind was silent for too long: answered with 504 (Gateway Timeout), or broken off.";
        ForwardsRefused "forwards_refused" Counter "requests" "Requests that were not sent on, because no server behind could be reached, or the lane is at a bound: answered with 503 (Service Unavailable).";
        ForwardsAbandoned "forwards_abandoned" Counter "requests" "Requests whose client closed or broke off its connection before it was answered whole: what was under way to the server behind was broken off.";
        Ejections "ejections" Counter "ejections" "Servers behind that were left out for a while, because they had failed several times in a row.";
        Upstreams "upstreams" Gauge "upstreams" "Servers behind that there are: each address of a name is one, and so is a name without an address.";
        LogLines "log_lines" Counter "lines" "Lines of the access log.";
        LogLinesDropped "log_lines_dropped" Counter "lines" "Lines of the access log that are not in its file: they found no room on the lane, or could not be written. Of these the lane hears with its next line.";
        LogLinesCut "log_lines_cut" Counter "lines" "Lines of the access log without what was asked for: there was no memory to keep that until the answer.";
    }
}

/// The counter of who counts nothing.
#[derive(Clone, Copy, Debug)]
pub enum NoCounter {}

impl OwnCounter for NoCounter {
    const DECLARED: &'static [Declaration] = &[];
    const FIRST: usize = HttpCounter::DECLARED.len();

    fn index(self) -> usize {
        match self {}
    }
}
