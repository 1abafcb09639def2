use tokio::time::advance;

use super::*;
use crate::{
    model::Verdict,
    run::testing::{decide, failed},
};

const SETTINGS: BreakerSettings =
    BreakerSettings { failure_percent: 50, runs: 4, open_for: Duration::from_millis(1000) };

fn breaker() -> (Arc<Breaker>, Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    let rule = decide(Tier::Managed, Verdict::None);
    (Arc::new(Breaker::new(SETTINGS, &rule, Arc::clone(&open))), open)
}

fn good() -> Ran {
    Ran::said(Ok(Arc::default()))
}

fn bad() -> Ran {
    failed(Failure::Connection, "no answer")
}

fn run(breaker: &Arc<Breaker>, ran: &Ran) {
    breaker.ask(None).unwrap().ended(sign(ran, true));
}

fn refused(breaker: &Arc<Breaker>) -> String {
    let refused = breaker.ask(None).unwrap_err();
    assert_eq!(refused.kind, Failure::Overloaded);
    refused.message
}

#[tokio::test(start_paused = true)]
async fn it_opens_on_the_failure_rate_of_the_last_runs_and_closes_after_probes_one_at_a_time() {
    let (breaker, open) = breaker();
    for ran in [good(), good(), good(), bad(), good()] {
        run(&breaker, &ran);
    }
    assert_eq!(open.load(Ordering::Relaxed), 0, "one of the last four");
    run(&breaker, &bad());
    assert_eq!(open.load(Ordering::Relaxed), 1, "two of the last four");
    advance(Duration::from_millis(400)).await;
    assert_eq!(refused(&breaker), "it did not answer lately and is not asked for a while");

    advance(Duration::from_millis(600)).await;
    let probe = breaker.ask(None).unwrap();
    let others = "it did not answer lately, and another call finds out whether it does again";
    assert_eq!(refused(&breaker), others);
    probe.ended(Sign::IsBroken);
    assert_eq!(refused(&breaker), "it did not answer lately and is not asked for a while");

    advance(Duration::from_millis(1000)).await;
    drop(breaker.ask(None).unwrap());
    for _ in 0..PROBES {
        assert_eq!(open.load(Ordering::Relaxed), 1);
        let probe = breaker.ask(None).unwrap();
        assert_eq!(refused(&breaker), others);
        probe.ended(Sign::Answers);
    }
    assert_eq!(open.load(Ordering::Relaxed), 0);
    let (one, another) = (breaker.ask(None).unwrap(), breaker.ask(None).unwrap());
    one.ended(Sign::IsBroken);
    another.ended(Sign::IsBroken);
    assert_eq!(open.load(Ordering::Relaxed), 0, "it begins anew: too few runs to tell");
}

#[test]
fn what_says_nothing_of_a_handler_and_what_is_long_ago_do_not_count() {
    let (nothing, (closed, open)) = (failed(Failure::Cancelled, "x"), breaker());
    for ran in [bad(), nothing.clone(), nothing, bad(), good()] {
        run(&closed, &ran);
    }
    assert_eq!(open.load(Ordering::Relaxed), 0, "three runs are too few to tell");
    run(&closed, &good());
    assert_eq!(open.load(Ordering::Relaxed), 1, "two of four");
    let (closed, open) = breaker();
    for ran in [bad(), good(), good(), good(), good(), bad()] {
        run(&closed, &ran);
    }
    assert_eq!(open.load(Ordering::Relaxed), 0, "one of the last four");
}

#[tokio::test(start_paused = true)]
async fn what_comes_late_from_before_it_opened_counts_no_more() {
    let (breaker, open) = breaker();
    let late = breaker.ask(None).unwrap();
    (0..4).for_each(|_| run(&breaker, &bad()));
    advance(SETTINGS.open_for).await;
    let probe = breaker.ask(None).unwrap();
    late.ended(Sign::IsBroken);
    probe.ended(Sign::Answers);
    run(&breaker, &good());
    run(&breaker, &good());
    assert_eq!(open.load(Ordering::Relaxed), 0);
}

#[test]
fn only_what_no_caller_can_bring_about_counts_against_a_handler() {
    let http = |status| Ran { http_status: Some(status), ..failed(Failure::HttpStatus, "HTTP") };
    for (ran, is_whole, expected) in [
        (good(), false, Sign::Answers),
        (bad(), false, Sign::IsBroken),
        (failed(Failure::DidNotStart, "x"), false, Sign::IsBroken),
        (Ran { kept_by_caller: true, ..failed(Failure::DidNotStart, "x") }, true, Sign::None),
        (http(500), true, Sign::IsBroken),
        (http(503), false, Sign::IsBroken),
        (http(400), true, Sign::Answers),
        (http(302), true, Sign::Answers),
        (failed(Failure::TimedOut, "x"), true, Sign::IsBroken),
        (failed(Failure::TimedOut, "x"), false, Sign::None),
        (failed(Failure::Exited, "x"), true, Sign::Answers),
        (failed(Failure::Killed, "x"), true, Sign::Answers),
        (failed(Failure::BadOutput, "x"), true, Sign::Answers),
        (failed(Failure::TooLarge, "x"), true, Sign::Answers),
        (failed(Failure::Overloaded, "x"), true, Sign::None),
        (failed(Failure::Cancelled, "x"), true, Sign::None),
        (failed(Failure::CallerGone, "x"), true, Sign::None),
    ] {
        assert_eq!(sign(&ran, is_whole), expected, "{ran:?} {is_whole}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_while_it_is_open_is_open_no_more() {
    let (breaker, open) = breaker();
    (0..4).for_each(|_| run(&breaker, &bad()));
    assert_eq!(open.load(Ordering::Relaxed), 1);
    drop(breaker);
    assert_eq!(open.load(Ordering::Relaxed), 0);
}
