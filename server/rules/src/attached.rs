use std::{any::Any, fmt, sync::OnceLock};

/// A place in a rule for what its user keeps as long as the rule is in force, such as programs that run for it. It goes
/// when the last catalog or call that holds the rule goes. No part of what the rule means.
#[derive(Default)]
pub struct Attached(OnceLock<Box<dyn Any + Send + Sync>>);

impl Attached {
    /// What is kept here. `None`: nothing yet, or something of another type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get()?.downcast_ref()
    }

    /// What is kept here, made at the first use. `None`: something of another type is kept here.
    pub fn get_or_attach<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "Attached(..)" } else { "Attached(nothing)" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_attached_is_made_once_and_goes_with_its_place() {
        let place = Attached::default();
        let kept = Arc::new(1);
        let attach = || place.get_or_attach(|| Arc::clone(&kept)).map(Arc::as_ptr);
        assert_eq!((attach(), attach()), (Some(Arc::as_ptr(&kept)), Some(Arc::as_ptr(&kept))));
        assert_eq!(Arc::strong_count(&kept), 2);
        assert_eq!(place.get_or_attach(|| "another type"), None);
        drop(place);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
