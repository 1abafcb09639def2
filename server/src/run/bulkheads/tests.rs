use tokio::time::advance;

use super::*;
use crate::{
    model::{Labels, Tier},
    run::testing::{http, shell},
};

const WIDE: BulkheadSettings = BulkheadSettings {
    slots: 100,
    tenant_slots: 100,
    http_runs: 100,
    command_runs: 100,
    tenant_commands: 100,
    background_runs: 100,
    tenant_background: 100,
    queue: 100,
    breaker: None,
};
const GRANTED: Duration = Duration::from_secs(3);

pub(super) fn caller(tenant: &str) -> Identity {
    let labels = [("tenant".to_owned(), tenant.to_owned())].into_iter().filter(|(_, tenant)| !tenant.is_empty());
    Identity { name: String::new(), labels: labels.collect::<Labels>() }
}

async fn enter(bulkheads: &Bulkheads, rule: &Rule, tenant: &str) -> Result<Entered, String> {
    let until = Instant::now().checked_add(GRANTED).unwrap();
    let entered = bulkheads.enter(rule, &caller(tenant), until, GRANTED).await;
    entered.map_err(|failed| format!("{}: {failed}", failed.kind.name()))
}

#[tokio::test(start_paused = true)]
async fn slots_are_of_all_handlers_together_and_a_tenant_gets_its_share() {
    let bulkheads = Bulkheads::new(BulkheadSettings { slots: 4, tenant_slots: 2, ..WIDE });
    let (one, other) = (shell(Tier::Managed, "true"), http(Tier::Team, "http://x".to_owned(), Vec::new()));
    let first = enter(&bulkheads, &one, "a").await.unwrap();
    let second = enter(&bulkheads, &other, "a").await.unwrap();
    let share = "overloaded: 2 calls of this tenant wait for handlers already";
    assert_eq!(enter(&bulkheads, &one, "a").await.unwrap_err(), share);
    let (_of_b, _nobodys) = (enter(&bulkheads, &one, "b").await.unwrap(), enter(&bulkheads, &one, "").await.unwrap());
    assert_eq!(enter(&bulkheads, &one, "c").await.unwrap_err(), "overloaded: 4 calls wait for handlers already");
    assert_eq!(bulkheads.slots().taken(), 4);
    drop(first);
    let _third = enter(&bulkheads, &one, "a").await.unwrap();
    drop(second);
    assert_eq!(bulkheads.slots().taken(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handler_has_its_places_a_short_queue_and_nothing_of_others() {
    let bulkheads = Bulkheads::new(BulkheadSettings { http_runs: 1, command_runs: 2, queue: 1, ..WIDE });
    let (slow, other) = (http(Tier::Team, "http://x".to_owned(), Vec::new()), shell(Tier::Team, "true"));
    let first = enter(&bulkheads, &slow, "").await.unwrap();
    let (waited, refused) = tokio::join!(enter(&bulkheads, &slow, ""), async {
        let refused = enter(&bulkheads, &slow, "").await.unwrap_err();
        drop(first);
        refused
    });
    let waited = waited.unwrap();
    assert!(waited.waited);
    assert_eq!(refused, "overloaded: all 1 places of this handler are taken, and 1 calls wait for one already");
    let begun = Instant::now();
    assert_eq!(enter(&bulkheads, &slow, "").await.unwrap_err(), "timed_out: Timed out after 3000ms");
    assert_eq!(begun.elapsed(), GRANTED);
    let (_one, _two) = (enter(&bulkheads, &other, "").await.unwrap(), enter(&bulkheads, &other, "").await.unwrap());
    let guard = http(Tier::Managed, "http://x".to_owned(), Vec::new());
    let first = enter(&bulkheads, &guard, "").await.unwrap();
    let pass = async || enter(&bulkheads, &guard, "").await.map(drop);
    let crowd = tokio::join!(pass(), pass(), pass(), async { drop(first) });
    assert_eq!(crowd, (Ok(()), Ok(()), Ok(()), ()), "before a managed one there is room for all that have a slot");
    drop(waited);
    assert!(!enter(&bulkheads, &slow, "").await.unwrap().waited, "nobody is left in the queue");
}

#[tokio::test(start_paused = true)]
async fn runs_in_the_background_have_places_of_their_own_and_no_slot() {
    let bulkheads = Bulkheads::new(BulkheadSettings { background_runs: 1, slots: 0, ..WIDE });
    let rule = Rule { timing: hookd_rules::Timing::Async, ..shell(Tier::Shared, "true") };
    let first = bulkheads.enter_background(&rule, &caller("")).unwrap();
    let refused = bulkheads.enter_background(&rule, &caller("")).unwrap_err();
    assert_eq!((refused.kind, &*refused.message), (Failure::Overloaded, "all 1 places of this handler are taken"));
    drop(first);
    bulkheads.enter_background(&rule, &caller("")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tenant_gets_its_share_of_the_background() {
    let bulkheads = Bulkheads::new(BulkheadSettings { tenant_background: 2, ..WIDE });
    let [one, other] = [(), ()].map(|()| Rule { timing: hookd_rules::Timing::Async, ..shell(Tier::Team, "true") });
    let first = bulkheads.enter_background(&one, &caller("a")).unwrap();
    let _second = bulkheads.enter_background(&other, &caller("a")).unwrap();
    let refused = bulkheads.enter_background(&other, &caller("a")).unwrap_err();
    let message = "2 handlers of this tenant run in the background already";
    assert_eq!((refused.kind, &*refused.message), (Failure::Overloaded, message));
    bulkheads.enter_background(&other, &caller("b")).unwrap();
    drop(first);
    bulkheads.enter_background(&other, &caller("a")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_crowd_of_a_tenant_waits_for_its_own_share_and_is_in_nobodys_way() {
    // Of one handler half, of all commands together so many.
    let bulkheads = Bulkheads::new(BulkheadSettings { http_runs: 4, tenant_commands: 3, ..WIDE });
    let webhook = http(Tier::Managed, "http://x".to_owned(), Vec::new());
    let commands = [(), ()].map(|()| shell(Tier::Managed, "true"));
    let mut held =
        vec![enter(&bulkheads, &webhook, "a").await.unwrap(), enter(&bulkheads, &webhook, "a").await.unwrap()];
    for command in [&commands[0], &commands[1], &commands[0]] {
        held.push(enter(&bulkheads, command, "a").await.unwrap());
    }
    for rule in [&webhook, &commands[0], &commands[1]] {
        let crowd = async {
            let waiting = (0..10).map(|_| enter(&bulkheads, rule, "a"));
            futures_util::future::join_all(waiting).await
        };
        let other = async { (enter(&bulkheads, rule, "b").await, enter(&bulkheads, rule, "").await) };
        let (crowd, (of_b, nobodys)) = tokio::join!(crowd, other);
        assert!(crowd.into_iter().all(|one| one.unwrap_err() == "timed_out: Timed out after 3000ms"));
        assert!(!of_b.unwrap().waited && !nobodys.unwrap().waited, "they did not even wait");
    }
    drop(held);
    assert!(!enter(&bulkheads, &webhook, "a").await.unwrap().waited);
}

#[tokio::test(start_paused = true)]
async fn workers_are_waited_for_where_each_tenant_has_its_line() {
    let bulkheads = Bulkheads::new(WIDE);
    let mut rule = shell(Tier::Managed, "cat");
    let Handler::Command(handler) = &mut rule.handler else { panic!() };
    handler.worker = Some(hookd_rules::Worker { pool: 2, max_calls: None, attached: hookd_rules::Attached::default() });
    let first = enter(&bulkheads, &rule, "a").await.unwrap();
    let (second, of_b) = tokio::join!(enter(&bulkheads, &rule, "a"), enter(&bulkheads, &rule, "b"));
    assert_eq!(second.unwrap_err(), "timed_out: Timed out after 3000ms");
    assert!(!of_b.unwrap().waited);
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_answer_is_let_be_and_takes_no_slot() {
    let breaker = Some(BreakerSettings { failure_percent: 100, runs: 2, open_for: Duration::from_secs(1) });
    let bulkheads = Bulkheads::new(BulkheadSettings { breaker, ..WIDE });
    let rule = http(Tier::Team, "http://x".to_owned(), Vec::new());
    for _ in 0..2 {
        let entered = enter(&bulkheads, &rule, "").await.unwrap();
        entered.ended(&Ran::said(Err(Failed::new(Failure::Connection, "gone"))), true);
    }
    let refused = enter(&bulkheads, &rule, "").await.unwrap_err();
    assert_eq!(refused, "overloaded: it did not answer lately and is not asked for a while");
    assert_eq!((bulkheads.slots().taken(), bulkheads.open_breakers()), (0, 1));
    let background = Rule { timing: hookd_rules::Timing::Async, ..http(Tier::Team, "http://x".to_owned(), Vec::new()) };
    for _ in 0..2 {
        let entered = bulkheads.enter_background(&background, &caller("")).unwrap();
        entered.ended(&Ran::said(Err(Failed::new(Failure::Connection, "gone"))), true);
    }
    let refused = bulkheads.enter_background(&background, &caller("")).unwrap_err();
    assert_eq!(refused.message, "it did not answer lately and is not asked for a while");
    advance(Duration::from_secs(1)).await;
    enter(&bulkheads, &rule, "").await.unwrap();
}
