use std::{convert::Infallible, marker::PhantomData, time::Duration};

use super::{OtlpError, OtlpStats};
use crate::settings::OtlpSettings;

/// In the place of what exports: there is none in this build, and settings that name a collector are refused.
#[derive(Debug)]
pub struct Exporter<T> {
    never: Infallible,
    of: PhantomData<fn(T)>,
}

impl<T> Exporter<T> {
    /// Always `None`.
    ///
    /// # Errors
    /// None.
    pub fn begin(_: &OtlpSettings) -> Result<Option<Self>, OtlpError> {
        Ok(None)
    }

    /// Says that exporting could begin.
    ///
    /// # Errors
    /// None.
    pub fn check(_: &OtlpSettings) -> Result<(), OtlpError> {
        Ok(())
    }

    /// Takes something to export.
    pub fn offer(&self, _: T) {
        match self.never {}
    }

    /// How exporting went so far.
    #[must_use]
    pub fn stats(&self) -> OtlpStats {
        match self.never {}
    }

    /// Ends.
    pub async fn close(&self, _: Duration) -> bool {
        match self.never {}
    }
}

impl<T> Clone for Exporter<T> {
    fn clone(&self) -> Self {
        match self.never {}
    }
}
