//! What conditions cost. Run with `cargo bench -p hookd-condition`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up has nothing to measure")]

use divan::{Bencher, black_box};
use hookd_condition::{Call, Claimed, Condition, Facts};

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

/// A call of about 500 bytes.
const PARAMS: &str = r#"{"command":"git push --force origin main && make deploy","description":"Push the branch and deploy it to the staging environment, then wait until the health checks of all services are green","timeout":120000,"cwd":"/home/ann/project","environment":{"CI":"true","LANG":"C.UTF-8","REGION":"eu-central-1"},"files":["src/main.rs","src/lib.rs","Cargo.toml","README.md","deploy/chart/values.yaml"],"options":{"dryRun":false,"retries":3,"labels":{"team":"platform","tier":"backend"}},"id":9007199254740993}"#;

const COMMON: &str = "tool == 'Bash' && params.command.startsWith('git push') && !params.command.contains('--dry-run') && params.options.retries < 5";

fn facts() -> Facts<'static> {
    Facts::new(Call {
        event: "PreToolUse",
        session_id: "s",
        tool: Some("Bash"),
        tool_kind: None,
        mcp_server: None,
        params: PARAMS,
        result: None,
        payload: None,
        cwd: Some("/home/ann/project"),
        timestamp_ms: 1_700_000_000_000,
        labels: &[],
        claimed: Claimed::default(),
    })
}

/// Evaluates `conditions` on facts whose parameters are parsed already.
fn parsed(bencher: Bencher<'_, '_>, conditions: &[Condition]) {
    let mut facts = facts();
    for condition in conditions {
        condition.evaluate(&mut facts).unwrap();
    }
    bencher.bench_local(|| {
        for condition in conditions {
            black_box(condition.evaluate(black_box(&mut facts))).unwrap();
        }
    });
}

#[divan::bench]
fn compile_common(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Condition::compile(black_box(COMMON)).unwrap());
}

#[divan::bench]
fn compile_with_a_pattern(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Condition::compile(black_box("params.command.matches('rm +-[a-z]*[rf]')")).unwrap());
}

#[divan::bench]
fn facts_alone(bencher: Bencher<'_, '_>) {
    bencher.bench(|| black_box(facts()));
}

#[divan::bench]
fn parse_and_evaluate_native(bencher: Bencher<'_, '_>) {
    let condition = Condition::compile(COMMON).unwrap();
    bencher.bench(|| condition.evaluate(&mut facts()).unwrap());
}

#[divan::bench]
fn evaluate_native(bencher: Bencher<'_, '_>) {
    parsed(bencher, &[Condition::compile(COMMON).unwrap()]);
}

/// The same, in a form that is left to cel as a whole.
#[divan::bench]
fn evaluate_by_cel(bencher: Bencher<'_, '_>) {
    parsed(bencher, &[Condition::compile(&format!("({COMMON}) == true")).unwrap()]);
}

#[divan::bench]
fn evaluate_a_macro(bencher: Bencher<'_, '_>) {
    parsed(bencher, &[Condition::compile("params.files.exists(f, f.endsWith('.yaml'))").unwrap()]);
}

/// A new call each time: the text is parsed once for a call.
#[divan::bench]
fn evaluate_shell_commands(bencher: Bencher<'_, '_>) {
    let condition = Condition::compile("shellCommands(params.command).exists(c, c[0] == 'make')").unwrap();
    bencher.bench(|| condition.evaluate(&mut facts()).unwrap());
}

#[divan::bench]
fn twenty_literal_patterns(bencher: Bencher<'_, '_>) {
    let conditions = (0..20).map(|index| format!("params.command.matches('rm -rf {index}')"));
    parsed(bencher, &conditions.map(|text| Condition::compile(&text).unwrap()).collect::<Vec<_>>());
}

fn twenty_patterns() -> Vec<Condition> {
    let texts = (0..20).map(|index| format!("params.command.matches('(rm|mv) +-[rf]+ {index}[0-9]*$')"));
    texts.map(|text| Condition::compile(&text).unwrap()).collect()
}

#[divan::bench]
fn twenty_patterns_one_by_one(bencher: Bencher<'_, '_>) {
    let conditions = twenty_patterns();
    let mut warm = facts();
    conditions.iter().for_each(|condition| drop(condition.evaluate(&mut warm)));
    bencher.with_inputs(facts).bench_local_values(|mut facts| {
        conditions.iter().filter(|condition| condition.evaluate(&mut facts).unwrap()).count()
    });
}

#[divan::bench]
fn twenty_patterns_in_one_pass(bencher: Bencher<'_, '_>) {
    let mut conditions = twenty_patterns();
    Condition::share_patterns(&mut conditions);
    let mut warm = facts();
    conditions.iter().for_each(|condition| drop(condition.evaluate(&mut warm)));
    bencher.with_inputs(facts).bench_local_values(|mut facts| {
        conditions.iter().filter(|condition| condition.evaluate(&mut facts).unwrap()).count()
    });
}
