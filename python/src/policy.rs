//! A policy that is a callable of Python.

use std::sync::{Arc, Mutex, PoisonError};

use convoy_scheduler::{
    Candidate, EngineState, Heuristic, Offer as SchedulerOffer, Pick, View as SchedulerView,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::bad;

/// What a policy sees: multi-packets of the window, processors, and what each processor offers for
/// each multi-packet.
#[pyclass(frozen, get_all)]
pub(crate) struct View {
    /// The time, in ps.
    now_ps: u64,
    /// Multi-packets of the window, in the order of their first packets; at least one.
    multi_packets: Py<PyTuple>,
    /// All processors, in the platform's order.
    processors: Py<PyTuple>,
    /// offers[m][p] is what processor p offers for multi-packet m; None if it cannot process it, or
    /// is full and not waited for.
    offers: Py<PyTuple>,
}

/// A multi-packet of the window.
#[pyclass(frozen, get_all)]
pub(crate) struct MultiPacket {
    /// Its packets.
    packets: u32,
    /// Its size in blocks of 16 bytes.
    blocks: u64,
    /// Its size in bytes.
    bytes: u64,
}

/// The state of a processor.
#[pyclass(frozen, get_all)]
pub(crate) struct Processor {
    /// Its estimated work ahead (w of the model), in ps.
    wait_ps: u64,
    /// Multi-packets at the processor, with the one in service.
    queued: usize,
    /// Whether it is processor 0 of the model.
    is_cpu: bool,
}

/// What a processor offers for a multi-packet.
#[pyclass(frozen, get_all)]
pub(crate) struct Offer {
    /// Its estimated time for it (p of the model), in ps.
    processing_ps: u64,
    /// Whether its queue has room.
    has_room: bool,
}

impl From<&Candidate> for MultiPacket {
    fn from(&Candidate { packets, blocks, bytes }: &Candidate) -> Self {
        Self { packets, blocks, bytes }
    }
}

impl From<&EngineState> for Processor {
    fn from(&EngineState { wait, queued, is_cpu }: &EngineState) -> Self {
        Self { wait_ps: wait, queued, is_cpu }
    }
}

impl From<SchedulerOffer> for Offer {
    fn from(SchedulerOffer { processing, has_room }: SchedulerOffer) -> Self {
        Self { processing_ps: processing, has_room }
    }
}

impl View {
    fn new(py: Python<'_>, view: &SchedulerView<'_>) -> PyResult<Self> {
        let offers_of = |group: usize| {
            let offers = (0..view.engines.len()).map(|engine| view.offer(group, engine).map(Offer::from));
            PyTuple::new(py, offers.collect::<Vec<_>>())
        };
        let offers = (0..view.groups.len()).map(offers_of).collect::<PyResult<Vec<_>>>()?;
        let multi_packets = view.groups.iter().map(MultiPacket::from).collect::<Vec<_>>();
        let processors = view.engines.iter().map(Processor::from).collect::<Vec<_>>();
        Ok(Self {
            now_ps: view.now,
            multi_packets: PyTuple::new(py, multi_packets)?.unbind(),
            processors: PyTuple::new(py, processors)?.unbind(),
            offers: PyTuple::new(py, offers)?.unbind(),
        })
    }
}

/// The callable, and how many multi-packets it sees.
pub(crate) struct PythonPolicy {
    pub(crate) callable: Py<PyAny>,
    pub(crate) reach: usize,
}

impl PythonPolicy {
    /// A heuristic for one run, and where it leaves its exception.
    pub(crate) fn heuristic(&self, py: Python<'_>) -> (Box<dyn Heuristic>, Raised) {
        let raised = Raised::default();
        let callable = self.callable.clone_ref(py);
        (Box::new(Called { callable, reach: self.reach, raised: raised.clone(), has_raised: false }), raised)
    }
}

/// The exception that ends a run, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: PyErr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

struct Called {
    callable: Py<PyAny>,
    reach: usize,
    raised: Raised,
    has_raised: bool,
}

impl Heuristic for Called {
    fn reach(&self) -> usize {
        self.reach
    }

    /// After an exception it assigns nothing more.
    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Pick> {
        if self.has_raised {
            return None;
        }
        Python::attach(|py| self.ask(py, view)).unwrap_or_else(|error| {
            self.has_raised = true;
            self.raised.set(error);
            None
        })
    }
}

impl Called {
    fn ask(&self, py: Python<'_>, view: &SchedulerView<'_>) -> PyResult<Option<Pick>> {
        let answer = self.callable.bind(py).call1((View::new(py, view)?,))?;
        if answer.is_none() {
            return Ok(None);
        }
        let wrong = |what: &str| format!("policy returned {answer}; {what}");
        let (group, engine) = match answer.extract::<(usize, usize)>() {
            Ok(indices) => indices,
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
                return Err(bad(wrong("an index is out of range")));
            }
            Err(_) => {
                let what = "expected the indices of a multi-packet and of a processor, or None";
                return Err(PyTypeError::new_err(wrong(what)));
            }
        };
        let (groups, engines) = (view.groups.len(), view.engines.len());
        if group >= groups || engine >= engines {
            let what = format!("there are {groups} multi-packets and {engines} processors");
            return Err(bad(wrong(&what)));
        }
        if view.offer(group, engine).is_none() {
            return Err(bad(wrong("this processor offers nothing for this multi-packet")));
        }
        Ok(Some(Pick { group, engine }))
    }
}
