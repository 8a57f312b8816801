//! Packets that Python gives: columns of numbers, or rows from anything that can be iterated over.

use convoy_scheduler::CLASSES;
use convoy_sim::{Hosts, Packet, Traffic, TrafficError};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::bad;

/// What is known of a packet, in the order of a row's values. The first two must be given.
const COLUMNS: [&str; 4] = ["bytes", "sa", "gap_us", "class"];
const REQUIRED: usize = 2;
/// The longest payload, as in a trace of text.
const BYTES_MAX: u32 = 65_535;
/// Ticks of a microsecond.
const TICKS: f64 = 1e6;

/// The values of a packet, by the columns.
type Row<'py> = [Option<Bound<'py, PyAny>>; COLUMNS.len()];

/// Packets that are read as they are needed.
pub(crate) struct PythonTraffic {
    values: Values,
    needs_gaps: bool,
    read: u64,
    /// SAs may have any numbers; the simulator's are small.
    hosts: Hosts<u64>,
    /// Why the packets ended early.
    error: Option<PyErr>,
}

enum Values {
    Rows(Py<PyIterator>),
    /// The index of a column, and its values.
    Columns(Vec<(usize, Py<PyIterator>)>),
}

impl PythonTraffic {
    /// The packets of `given`, each of which must have a gap if `needs_gaps`.
    pub(crate) fn new(given: &Bound<'_, PyAny>, needs_gaps: bool) -> PyResult<Self> {
        let values = if given.hasattr("keys")? {
            Values::Columns(columns(given)?)
        } else {
            Values::Rows(given.try_iter()?.unbind())
        };
        Ok(Self { values, needs_gaps, read: 0, hosts: Hosts::default(), error: None })
    }

    /// Up to `most` packets at once.
    pub(crate) fn collect(mut self, py: Python<'_>, most: u64) -> PyResult<Vec<Packet>> {
        let mut packets = Vec::new();
        while self.read < most
            && let Some(packet) = self.next(py)?
        {
            packets.push(packet);
        }
        Ok(packets)
    }

    /// Why the packets ended before the last one, if they did.
    pub(crate) fn take_error(&mut self) -> Option<PyErr> {
        self.error.take()
    }

    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Packet>> {
        let Some(row) = self.row(py)? else { return Ok(None) };
        let packet = self.packet(&row)?;
        self.read += 1;
        Ok(Some(packet))
    }

    fn row<'py>(&self, py: Python<'py>) -> PyResult<Option<Row<'py>>> {
        match &self.values {
            Values::Rows(rows) => {
                let Some(values) = rows.bind(py).clone().next().transpose()? else { return Ok(None) };
                self.row_of(&values).map(Some)
            }
            Values::Columns(columns) => self.row_across(py, columns),
        }
    }

    fn row_of<'py>(&self, values: &Bound<'py, PyAny>) -> PyResult<Row<'py>> {
        let expected =
            || PyTypeError::new_err(format!("{}: {values}; expected {}", self.place(), COLUMNS.join(", ")));
        let mut row = Row::default();
        for (at, value) in values.try_iter().map_err(|_| expected())?.enumerate() {
            *row.get_mut(at).ok_or_else(expected)? = Some(value?);
        }
        if row[REQUIRED - 1].is_none() { Err(expected()) } else { Ok(row) }
    }

    /// The next value of each column; `None` if all of them have ended.
    fn row_across<'py>(
        &self,
        py: Python<'py>,
        columns: &[(usize, Py<PyIterator>)],
    ) -> PyResult<Option<Row<'py>>> {
        let mut row = Row::default();
        for (column, values) in columns {
            row[*column] = values.bind(py).clone().next().transpose()?;
        }
        let has = |(column, _): &&(usize, _)| row[*column].is_some();
        match columns.iter().find(|each| !has(each)) {
            None => Ok(Some(row)),
            Some(_) if !columns.iter().any(|each| has(&each)) => Ok(None),
            Some((short, _)) => {
                let what = format!("{}: column {:?} has ended before others", self.place(), COLUMNS[*short]);
                Err(bad(what))
            }
        }
    }

    fn packet(&mut self, row: &Row<'_>) -> PyResult<Packet> {
        let bytes: Option<u32> = self.value(row, 0, |bytes| *bytes <= BYTES_MAX)?;
        let sa: Option<u64> = self.value(row, 1, |_| true)?;
        let gap_us: Option<f64> = self.value(row, 2, |gap: &f64| gap.is_finite() && *gap >= 0.0)?;
        let class: Option<u8> = self.value(row, 3, |class| usize::from(*class) < CLASSES)?;
        if self.needs_gaps && gap_us.is_none() {
            return Err(bad(format!("{}: no gap_us, which arrivals \"captured\" need", self.place())));
        }
        Ok(Packet {
            payload_bytes: bytes.unwrap_or_default(),
            sa: self.hosts.number(&sa.unwrap_or_default()),
            class: class.unwrap_or_default(),
            gap_ticks: (gap_us.unwrap_or_default() * TICKS).round() as u64,
        })
    }

    fn value<'py, T>(
        &self,
        row: &Row<'py>,
        column: usize,
        is_good: impl Fn(&T) -> bool,
    ) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        const RANGES: [&str; COLUMNS.len()] = [
            "an integer from 0 to 65535",
            "an integer from 0 to 2^64 - 1",
            "a number of 0 or more",
            "0 to 7",
        ];
        let Some(given) = &row[column] else { return Ok(None) };
        let expected =
            || format!("{}: {} {given}; expected {}", self.place(), COLUMNS[column], RANGES[column]);
        match given.extract() {
            Ok(value) if is_good(&value) => Ok(Some(value)),
            Err(error) if !error.is_instance_of::<PyOverflowError>(given.py()) => {
                Err(PyTypeError::new_err(expected()))
            }
            _ => Err(bad(expected())),
        }
    }

    fn place(&self) -> String {
        format!("traffic[{}]", self.read)
    }
}

/// The columns of a dict, or of anything else that has keys.
fn columns(given: &Bound<'_, PyAny>) -> PyResult<Vec<(usize, Py<PyIterator>)>> {
    let mut columns = Vec::new();
    for key in given.call_method0("keys")?.try_iter()? {
        let key = key?;
        let name = key.to_string();
        let column = COLUMNS.iter().position(|column| *column == name);
        let unknown =
            || format!("traffic: unknown column {name:?}; possible columns: {}", COLUMNS.join(", "));
        let column = column.ok_or_else(|| bad(unknown()))?;
        columns.push((column, given.get_item(key)?.try_iter()?.unbind()));
    }
    match (0..REQUIRED).find(|column| columns.iter().all(|(given, _)| given != column)) {
        Some(missing) => Err(bad(format!("traffic: no column {:?}", COLUMNS[missing]))),
        None => Ok(columns),
    }
}

impl Traffic for PythonTraffic {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let mut packets = Vec::with_capacity(1);
        self.fill(&mut packets, 1)?;
        Ok(packets.pop())
    }

    /// Takes the interpreter's lock once for all of them. Packets end at an error, which keeps its
    /// type for the caller.
    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        Python::attach(|py| {
            for _ in 0..most {
                if self.error.is_some() {
                    break;
                }
                match self.next(py) {
                    Ok(Some(packet)) => packets.push(packet),
                    Ok(None) => break,
                    Err(error) => self.error = Some(error),
                }
            }
        });
        Ok(())
    }
}
