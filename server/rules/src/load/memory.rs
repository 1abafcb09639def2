//! What a load remembers of the ones before it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::Tier;

type SourceKey = (Tier, PathBuf);

/// What a load remembers of the ones before it (law 10). Empty at the start of a process.
///
/// It holds texts and not compiled rules: a last good file is judged anew under the settings of every load.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Whether a load succeeded.
    pub(super) has_loaded: bool,
    /// The files of each managed and team source that is in force.
    pub(super) central: HashMap<SourceKey, BTreeSet<Arc<Path>>>,
    /// The last good text of each file of each source below.
    pub(super) good: HashMap<SourceKey, BTreeMap<Arc<Path>, Arc<str>>>,
}
