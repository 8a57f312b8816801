//! Engines on their own: encrypting multi-packets.

use std::cell::RefCell;
use std::rc::Rc;

use convoy_engine::{Engine, Multibuffer, Placement, Rig, Software};
use convoy_ipsec::{Aead, Cipher, Integrity, Proposal, Transform};
use convoy_ipsec_mb as mb;

use crate::report::{BYTES, row, table, with_ratio};
use crate::time::{Subject, medians, ticks};

const PROPOSALS: [&str; 7] = [
    "aes128gcm16",
    "aes256gcm16",
    "chacha20poly1305",
    "aes128gmac",
    "aes128-sha1",
    "aes128-sha256",
    "aes128ctr-sha1",
];
const BURSTS: [usize; 2] = [1, 32];
/// Distance between the packets of the reference, in bytes: that of frames in packet memory.
const STRIDE: usize = 2048;
/// Bytes appended before encryption: padding length and next header.
const TRAILER: usize = 2;

fn engines() -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("software"))];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    engines.extend(Multibuffer::inline("multibuffer").ok().map(|engine| Box::new(engine) as _));
    // With only two cores, which other programs use as well, the thread and its caller would take
    // turns.
    if cores > 2 {
        let pinned = Multibuffer::on_core("multibuffer", cores - 1);
        engines.extend(pinned.ok().map(|engine| Box::new(engine) as _));
    }
    engines
}

pub(crate) fn report() {
    let columns = BURSTS.map(|burst| BYTES.map(|bytes| format!("{burst} x {bytes} B"))).concat();
    let first = ["engine", "proposal"].map(str::to_owned).to_vec();
    table("Engines: cycles per packet (times the floor)", &[first, columns].concat());
    let mut engines = engines();
    for proposal in PROPOSALS {
        let transform = proposal.parse::<Proposal>().expect("a proposal of the list").transform;
        let rows = names(&mut engines);
        let mut lines = vec![Vec::new(); rows.len()];
        for (burst, bytes) in BURSTS.into_iter().flat_map(|burst| BYTES.map(|bytes| (burst, bytes))) {
            let cells = measure(&mut engines, transform, burst, bytes);
            lines.iter_mut().zip(cells).for_each(|(line, cell)| line.push(cell));
        }
        for (name, line) in rows.into_iter().zip(lines) {
            row(&[vec![name, proposal.to_owned()], line].concat());
        }
    }
}

/// Row names: ipsec-mb on its own, then each engine by its queue and, where supported, in place.
fn names(engines: &mut [Box<dyn Engine>]) -> Vec<String> {
    let mut names = vec!["ipsec-mb alone".to_owned()];
    for engine in engines {
        let description = engine.description();
        let place = if description.placement == Placement::Lookaside { ", own core" } else { "" };
        let name = format!("{}{place}", description.kind);
        let in_place = engine.in_place().is_some().then(|| format!("{name}, in place"));
        names.push(name);
        names.extend(in_place);
    }
    names
}

/// One cell for each of [`names`].
fn measure(engines: &mut [Box<dyn Engine>], transform: Transform, burst: usize, bytes: usize) -> Vec<String> {
    let mut floor = Floor::new(transform, burst, bytes);
    let has_floor = floor.is_some();
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    if let Some(floor) = &mut floor {
        subjects.push(Box::new(|| floor.run()));
    }
    for engine in engines {
        let works_in_place = engine.in_place().is_some();
        let by_queue = Rc::new(RefCell::new(Rig::new(engine.as_mut(), transform, burst, bytes)));
        let in_place = works_in_place.then(|| by_queue.clone());
        subjects.push(timed(move || {
            by_queue.borrow_mut().run();
        }));
        subjects.extend(in_place.map(|rig| {
            timed(move || {
                rig.borrow_mut().run_in_place();
            })
        }));
    }
    let per_packet: Vec<f64> = medians(subjects).into_iter().map(|time| time / burst as f64).collect();
    let floor = has_floor.then(|| per_packet[0]);
    let first = floor.map_or_else(|| "-".to_owned(), |floor| with_ratio(floor, None));
    let ours = per_packet[usize::from(has_floor)..].iter().map(|figure| with_ratio(*figure, floor));
    std::iter::once(first).chain(ours).collect()
}

fn timed<'a>(mut work: impl FnMut() + 'a) -> Subject<'a> {
    Box::new(move || {
        let began = ticks();
        work();
        ticks() - began
    })
}

/// Ticks per packet of ipsec-mb on its own; `None` without the library.
pub(crate) fn floor(proposal: &str, burst: usize, bytes: usize) -> Option<f64> {
    let transform = proposal.parse::<Proposal>().expect("a proposal").transform;
    let mut floor = Floor::new(transform, burst, bytes)?;
    let subject: Subject<'_> = Box::new(|| floor.run());
    Some(medians(vec![subject])[0] / burst as f64)
}

/// ipsec-mb on its own, on packets of the same lengths.
struct Floor {
    manager: mb::Manager,
    key: mb::Key,
    memory: Vec<u8>,
    head: usize,
    body: usize,
}

impl Floor {
    fn new(transform: Transform, burst: usize, bytes: usize) -> Option<Self> {
        let (cipher, hash, auth_len) = match transform {
            Transform::Aead(Aead::AesGcm { .. }) => (mb::LibraryCipher::Gcm, mb::Hash::None, 0),
            Transform::Aead(Aead::NullAesGmac(_)) => (mb::LibraryCipher::Gmac, mb::Hash::None, 0),
            Transform::Aead(Aead::ChaCha20Poly1305) => {
                (mb::LibraryCipher::ChaCha20Poly1305, mb::Hash::None, 0)
            }
            Transform::Chained { cipher, integrity } => {
                let cipher = match cipher {
                    Cipher::AesCbc(_) => mb::LibraryCipher::Cbc,
                    Cipher::AesCtr(_) => mb::LibraryCipher::Ctr,
                    _ => return None,
                };
                let (hash, auth_len) = match integrity? {
                    Integrity::HmacSha1_96 => (mb::Hash::Sha1, 20),
                    Integrity::HmacSha256_128 => (mb::Hash::Sha256, 32),
                    _ => return None,
                };
                (cipher, hash, auth_len)
            }
        };
        let key_len = transform.cipher_key_len();
        let mut manager = mb::Manager::new().ok()?;
        let (key, auth) = (vec![7; key_len], vec![9; auth_len]);
        let key = manager.key(cipher, hash, transform.icv_len(), &key, &auth)?;
        let body = (bytes + TRAILER).next_multiple_of(transform.alignment());
        Some(Self { manager, key, memory: vec![0x5c; burst * STRIDE], head: 8 + transform.iv_len(), body })
    }

    fn run(&mut self) -> u64 {
        let began = ticks();
        self.manager.floor(&self.key, &mut self.memory, STRIDE, self.head, self.body);
        ticks() - began
    }
}
