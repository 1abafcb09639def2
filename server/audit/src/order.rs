use std::collections::HashMap;

use crate::Record;

/// The first and the last record of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ends {
    /// The first one. `None`: its first line is no record.
    pub first: Option<Record>,
    /// The last one.
    pub last: Option<Record>,
}

/// The places of `files` in the order in which they were written, which the chain tells. Where it is broken between two of
/// them, the time of the first record does.
#[must_use]
pub fn order(files: &[Ends]) -> Vec<usize> {
    let last = |at: usize| files.get(at).and_then(|ends| ends.last.as_ref()).map(|record| record.hash);
    let mut after = HashMap::new();
    for (at, ends) in files.iter().enumerate() {
        if let Some(first) = &ends.first {
            after.insert(first.prev, at);
        }
    }
    let followers = (0..files.len()).filter_map(last).filter_map(|hash| after.get(&hash).copied()).collect::<Vec<_>>();
    let mut beginnings = (0..files.len()).filter(|at| !followers.contains(at)).collect::<Vec<_>>();
    beginnings.sort_by_key(|at| files.get(*at).and_then(|ends| ends.first.as_ref()).map(|first| first.time.as_str()));
    let mut order = Vec::with_capacity(files.len());
    for beginning in beginnings {
        let mut next = Some(beginning);
        while let Some(at) = next.filter(|at| !order.contains(at)) {
            order.push(at);
            next = last(at).and_then(|hash| after.get(&hash).copied());
        }
    }
    // A ring, which no chain is: what is in it is told about by verification.
    let left = (0..files.len()).filter(|at| !order.contains(at)).collect::<Vec<_>>();
    order.extend(left);
    order
}
