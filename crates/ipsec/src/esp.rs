//! The packets of ESP and AH: where headers, trailer and ICV go, and the jobs of engines.

pub(crate) mod ah;
pub(crate) mod batch_template;
pub(crate) mod envelope;
pub(crate) mod identification;
pub(crate) mod job;
pub(crate) mod job_plan;
pub(crate) mod open_template;
pub(crate) mod outer_header;
pub(crate) mod seal_template;
pub(crate) mod stage;
pub(crate) mod trailer;
