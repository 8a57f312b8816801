//! DPDK's devices. One executable, and so one EAL, which a process can start once.

mod devices;
mod ethernet;
