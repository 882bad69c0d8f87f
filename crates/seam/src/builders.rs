//! How a struct of settings is written: with a builder for each of its fields.

/// Makes, for each of these public fields of a struct of settings, the builder of the same name. So such a struct can be `#[non_exhaustive]`, and
/// whoever sets one field says nothing about the others.
#[macro_export]
macro_rules! builders {
    ($type:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        impl $type {
            $(
                #[doc = concat!("With this [`", stringify!($field), "`](field@", stringify!($type), "::", stringify!($field), ").")]
                #[must_use]
                pub const fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
