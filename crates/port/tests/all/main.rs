//! The ports on real interfaces, each test in network namespaces of its own.

mod guard;
mod raw;
mod support;
mod tun;
mod udp;
