//! The filter of system calls (seccomp) that stands beside Landlock, for what Landlock does not see.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError as Error, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::{Landlock, others, sockets};

/// The system calls that are kept back, by their numbers, and when: always where there is no rule.
pub(crate) type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// What a call that is kept back fails with, as one that Landlock keeps back does.
const EACCES: u32 = 13;

/// This thread, and what it becomes and starts, is held to what `wanted` names.
pub(crate) fn restrict(wanted: &Landlock) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("system calls cannot be filtered here: {error}");
    let program = program(wanted).map_err(|error| cannot(&error))?;
    match apply_filter(&program) {
        Err(error) if !wanted.best_effort => Err(cannot(&error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whatever its arguments are.
pub(crate) fn always() -> Vec<SeccompRule> {
    Vec::new()
}

/// The lower half of the argument at this place, which is all that the kernel looks at where it is an `int`.
pub(crate) fn argument(at: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    SeccompCondition::new(at, Dword, is, value)
}

/// The argument at this place is another one.
pub(crate) fn is_not(at: u8, value: u64) -> Result<SeccompCondition, Error> {
    argument(at, SeccompCmpOp::Ne, value)
}

fn program(wanted: &Landlock) -> Result<BpfProgram, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(calls(wanted)?, SeccompAction::Allow, SeccompAction::Errno(EACCES), arch)?.try_into()
}

fn calls(wanted: &Landlock) -> Result<Calls, Error> {
    let mut calls = sockets::calls(wanted)?;
    calls.extend(others::calls(wanted)?);
    let x32 = x32(&calls);
    calls.extend(x32);
    Ok(calls)
}

/// The same calls by the numbers of x32, which count as this architecture's: nothing that is run here has them.
fn x32(calls: &Calls) -> Calls {
    const X32: i64 = 0x4000_0000;
    // sendmsg and sendmmsg, which have numbers of their own there.
    calls.keys().copied().chain([518, 538]).map(|call| (X32 | call, always())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_do_all_of_it_unseen_is_kept_back_whatever_is_asked_of_it() {
        let calls = calls(&Landlock { connect: vec![443], bind: vec![0], ..Landlock::default() }).unwrap();
        for call in [libc::SYS_io_uring_setup, 0x4000_0000 | 41, 0x4000_0000 | 302, 0x4000_0000 | 538] {
            assert_eq!(calls.get(&call), Some(&Vec::new()), "{call}");
        }
    }
}
