//! The ports on real interfaces, each test in network namespaces of its own.

mod raw;
mod tun;
mod udp;
