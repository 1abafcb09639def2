//! What of a catalog applies to one caller: what its call is judged by, and nothing else.

use std::sync::Arc;

use crate::{Catalog, DefaultRule, EventIndex, LabelPairs, Lacking, Matching, groups::Share};

/// The rules and defaults of one catalog that are for one caller: those of sources without a selector, and of those whose
/// selector its verified labels meet (issue 6). Cloning shares it.
#[derive(Debug, Clone)]
pub struct Policy {
    catalog: Arc<Catalog>,
    /// `None`: no source has a selector.
    share: Option<Arc<Share>>,
}

impl Policy {
    /// What of `catalog` is for a caller with these verified labels. For labels that were seen before this allocates
    /// nothing.
    ///
    /// # Errors
    /// A label that the caller lacks and that a source needs whose settings say `missing_label: deny`: its call must not be
    /// judged.
    pub fn of(catalog: Arc<Catalog>, labels: &LabelPairs) -> Result<Self, Lacking> {
        let groups = &catalog.groups;
        let share = if groups.is_empty() { None } else { Some(groups.share(&catalog.by_event, labels)?) };
        Ok(Self { catalog, share })
    }

    /// The catalog that it is of.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// How many rules for `event` apply, and those of them that match `subject`, in evaluation order: see
    /// [`EventIndex::matching`]. `None`: no rule for this event applies.
    #[must_use]
    pub fn matching(&self, event: &str, subject: Option<&str>) -> Option<(usize, Arc<Matching>)> {
        if let Some(found) = self.share.as_ref().and_then(|share| share.matching(event, subject)) {
            return Some(found);
        }
        let index: &EventIndex = self.catalog.by_event.get(event)?;
        Some((index.rules().len(), index.matching(subject)))
    }

    /// The defaults that apply, in evaluation order, each with its place in [`Catalog::defaults`].
    pub fn defaults(&self) -> impl Iterator<Item = (usize, &DefaultRule)> {
        let all = if self.share.is_some() { 0..0 } else { 0..self.catalog.defaults.len() };
        let places = self.share.as_ref().map_or(&[][..], |share| share.defaults());
        let own = places.iter().filter_map(|place| usize::try_from(*place).ok());
        all.chain(own).filter_map(|place| Some((place, self.catalog.defaults.get(place)?)))
    }
}
