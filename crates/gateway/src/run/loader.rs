//! The thread that reads the configuration for reloads.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use convoy_config::{Config, ConfigErrors};
use convoy_process::supervise::{self, Fault};

use super::Load;

type Loaded = Result<Box<Config>, ConfigErrors>;

/// Has one thread do what `load` does, no matter who asks. The C library keeps what a thread has
/// freed for that thread, and a configuration of thousands of tunnels takes tens of megabytes to
/// read: each thread that reads one would keep as much. The thread begins with the first reload,
/// when the gateway has given up its privileges.
pub fn on_one_thread(load: Load, faults: Sender<Fault>) -> Load {
    let begun: Mutex<Option<Sender<Sender<Loaded>>>> = Mutex::default();
    Arc::new(move || {
        let failed = |why: &str| ConfigErrors::whole_file("reload", why);
        let requests = {
            let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
            match &*begun {
                Some(requests) => requests.clone(),
                None => {
                    let requests = begin(Arc::clone(&load), &faults);
                    begun.insert(requests.map_err(|error| failed(&error.to_string()))?).clone()
                }
            }
        };
        let (answer, answered) = channel();
        let stopping = || failed("the gateway is stopping");
        requests.send(answer).map_err(|_| stopping())?;
        answered.recv().map_err(|_| stopping())?
    })
}

fn begin(load: Load, faults: &Sender<Fault>) -> io::Result<Sender<Sender<Loaded>>> {
    let (requests, requested) = channel::<Sender<Loaded>>();
    supervise::spawn("loader", faults, move || {
        for asker in requested {
            // Who asked may have left.
            let _ = asker.send(load());
        }
    })?;
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    #[test]
    fn all_who_ask_are_answered_by_the_same_thread() {
        let seen: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
        let (faults, reported) = channel();
        let noted = Arc::clone(&seen);
        let load: Load = Arc::new(move || {
            noted.lock().expect("no panic").push(thread::current().id());
            Config::parse("test.toml", "").map(Box::new)
        });
        let load = on_one_thread(load, faults);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(load().is_ok()));
            }
        });
        let seen = seen.lock().expect("no panic");
        assert!(seen.len() == 3 && seen.iter().all(|id| *id == seen[0] && *id != thread::current().id()));
        drop(load);
        assert!(reported.recv().is_err(), "its thread ends with the last who could ask, without a fault");
    }

    #[test]
    fn reading_that_panics_is_an_error_and_ends_the_gateway() {
        let (faults, reported) = channel();
        let load = on_one_thread(Arc::new(|| panic!("provoked by a test")), faults);
        assert!(load().is_err() && load().is_err());
        assert!(matches!(reported.recv(), Ok(Fault::Thread(name)) if name == "loader"));
    }
}
