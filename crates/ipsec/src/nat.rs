//! UDP encapsulation, and the flows that are kept open through NATs.

pub(crate) mod carried;
pub(crate) mod flows;
