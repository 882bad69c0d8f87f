//! What only a workload understands of its plan.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What a plan says that only its workload understands: a value of a type of the workload's.
#[derive(Clone, Default)]
pub struct Particulars(Option<Arc<dyn Any + Send + Sync>>);

impl Particulars {
    /// Of this value.
    pub fn of<T: Any + Send + Sync>(value: T) -> Self {
        Self(Some(Arc::new(value)))
    }

    /// The value; its default if nothing was said.
    pub fn get<T: Any + Clone + Default>(&self) -> T {
        self.0.as_ref().and_then(|value| value.downcast_ref::<T>()).cloned().unwrap_or_default()
    }
}

impl fmt::Debug for Particulars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Particulars" } else { "no Particulars" })
    }
}
