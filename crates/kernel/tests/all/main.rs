//! What the kernel does by what it was given, each test in a network namespace of its own.

mod guard;
