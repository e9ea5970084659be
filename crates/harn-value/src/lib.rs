//! The values of a Harn program: layout, equality, order, printed form, JSON.
