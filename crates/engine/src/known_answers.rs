//! Known answers: whether an engine computes what OpenSSL does.
//!
//! An engine is asked before it gets its first packet, and again before it gets packets after a
//! failure: each transform once in both directions, and once with a wrong ICV, which it must
//! refuse. `known_answers/answers.txt` has the answers, and `known_answers/generate.py`
//! wrote it.

use std::time::{Duration, Instant};

use convoy_ipsec::{
    Aead, Cipher, CryptoJob, CryptoPacket, CryptoStatus, Direction, FinishContext, KeyMaterial, SaIndex,
    Transform,
};
use convoy_packet::FramePool;

use crate::calibrate::next_ticket;
use crate::stack::{far_below, wipe_stack};
use crate::{Completion, Engine, EngineError, Outcome, Submission};

/// A transform and its answer, the body and the ICV in hexadecimal, on each line.
const ANSWERS: &str = include_str!("known_answers/answers.txt");
/// Bytes of SPI and sequence number.
const HEADER: usize = 8;
/// Bytes of the body: whole blocks of every cipher, and more than one.
const BODY: usize = 32;

/// The SA of the questions, whose keys are gone after them. A higher number would make an engine's
/// tables longer.
pub const EXAM_SA: SaIndex = SaIndex(0);

/// How long an engine may take for an answer before it has its first packet.
const PATIENCE: Duration = Duration::from_secs(2);

/// Examines an engine without work on each of `transforms`, and waits for its answers.
///
/// # Errors
/// [`EngineError::Device`] names the first transform that it got wrong, or did not answer within
/// two seconds; that of `install_key`.
pub fn ask_known(engine: &mut dyn Engine, transforms: Vec<Transform>) -> Result<(), EngineError> {
    let (mut exam, mut completions) = (Exam::new(transforms), Vec::new());
    let mut start = Instant::now();
    while !exam.ask(engine)? {
        engine.poll(&mut completions);
        for completion in completions.drain(..) {
            start = Instant::now();
            exam.take(completion);
        }
        if start.elapsed() > PATIENCE {
            return Err(exam.end(engine));
        }
        std::hint::spin_loop();
    }
    Ok(())
}

/// An examination that waits for nothing: for an engine that is to come back while its worker goes
/// on. The owner [asks](Self::ask) and polls by turns, passes on what it polled, and installs all
/// keys again afterwards: the questions use the place of SA 0.
pub struct Exam {
    left: Vec<Transform>,
    asked: Option<ExamQuestion>,
    pool: FramePool,
}

/// What is under way.
struct ExamQuestion {
    transform: Transform,
    question: KnownPacket,
    step: ExamStep,
    ticket: u64,
    /// `None` until it has answered: what is wrong, if anything.
    result: Option<Result<(), &'static str>>,
}

/// What is asked of each transform, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExamStep {
    Seal,
    Open,
    /// Opening with a wrong ICV.
    Refuse,
}

impl Exam {
    /// Of these transforms.
    pub fn new(transforms: Vec<Transform>) -> Self {
        Self { left: transforms, asked: None, pool: FramePool::new(1, 0) }
    }

    /// Asks the next question if the last one is answered; `true` once all answers were right.
    ///
    /// # Errors
    /// [`EngineError::Device`] names the transform that it got wrong; those of `install_key` and
    /// `submit`. The examination has ended then.
    pub fn ask(&mut self, engine: &mut dyn Engine) -> Result<bool, EngineError> {
        let (transform, question, step) = match self.asked.take() {
            Some(asked) if asked.result.is_none() => {
                self.asked = Some(asked);
                return Ok(false);
            }
            Some(ExamQuestion { transform, result: Some(Err(fault)), .. }) => {
                engine.remove_key(EXAM_SA);
                return Err(failure(engine, transform, fault));
            }
            Some(ExamQuestion { transform, question, step: ExamStep::Seal, .. }) => {
                (transform, question, ExamStep::Open)
            }
            Some(ExamQuestion { transform, question, step: ExamStep::Open, .. }) if question.has_icv() => {
                (transform, question, ExamStep::Refuse)
            }
            answered => {
                if answered.is_some() {
                    engine.remove_key(EXAM_SA);
                }
                let Some(transform) = self.left.pop() else { return Ok(true) };
                (transform, begin(engine, transform)?, ExamStep::Seal)
            }
        };
        let ticket = next_ticket();
        let packet =
            question.packet(step, &mut self.pool).ok_or_else(|| failure(engine, transform, SILENT))?;
        let submission = Submission::new(ticket, EXAM_SA, packet.direction, vec![packet]);
        engine.submit(submission).map_err(|refused| refused.reason)?;
        self.asked = Some(ExamQuestion { transform, question, step, ticket, result: None });
        Ok(false)
    }

    /// Takes a completion if it is the answer; otherwise returns it.
    pub fn take(&mut self, completion: Completion) -> Option<Completion> {
        let Some(asked) = self.asked.as_mut().filter(|asked| asked.ticket == completion.submission.ticket)
        else {
            return Some(completion);
        };
        let is_done = completion.outcome == Outcome::Done;
        let packet = completion.submission.packets.into_iter().next().filter(|_| is_done);
        asked.result =
            Some(packet.as_ref().map_or(Err(SILENT), |packet| asked.question.check(asked.step, packet)));
        if let Some(packet) = packet {
            self.pool.give_back(packet.frame);
        }
        None
    }

    /// Ends it without an answer, and says so.
    pub fn end(self, engine: &mut dyn Engine) -> EngineError {
        engine.remove_key(EXAM_SA);
        match self.asked {
            Some(asked) => failure(engine, asked.transform, SILENT),
            None => EngineError::Device {
                engine: engine.description().name.clone(),
                reason: "it was asked nothing".to_owned(),
            },
        }
    }
}

const SILENT: &str = "it did not answer";

fn failure(engine: &dyn Engine, transform: Transform, fault: &str) -> EngineError {
    let reason = format!("known answer of {transform}: {fault}");
    EngineError::Device { engine: engine.description().name.clone(), reason }
}

/// Installs the question's key.
fn begin(engine: &mut dyn Engine, transform: Transform) -> Result<KnownPacket, EngineError> {
    let question = KnownPacket::of(transform);
    let keys = KeyMaterial::new(transform, question.key.clone()).expect("a key of the transform's length");
    let installed = far_below(|| engine.install_key(EXAM_SA, &keys));
    wipe_stack();
    installed.map(|()| question)
}

/// A packet before sealing and after.
struct KnownPacket {
    key: Vec<u8>,
    job: CryptoJob,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl KnownPacket {
    fn of(transform: Transform) -> Self {
        let key: Vec<u8> = (0..transform.key_material_len()).map(|at| (at * 29 + 5) as u8).collect();
        let head = HEADER + transform.iv_len();
        let clear = (0..head).map(|at| (at * 7 + 3) as u8);
        let mut plain: Vec<u8> = clear.chain((0..BODY).map(|at| (at * 11 + 1) as u8)).collect();
        let salt = &key[transform.cipher_key_len()..][..transform.salt_len()];
        let job = job(transform, &plain[..head], salt);
        let sealed = [&plain[..head], &answer(transform)].concat();
        plain.resize(sealed.len(), 0);
        Self { key, job, plain, sealed }
    }

    fn has_icv(&self) -> bool {
        usize::from(self.job.icv_start) < self.sealed.len()
    }

    /// `None` while the frame of the last question is not back.
    fn packet(&self, step: ExamStep, pool: &mut FramePool) -> Option<CryptoPacket> {
        let mut frame =
            pool.take_filled(if step == ExamStep::Seal { &self.plain } else { &self.sealed }, 0)?;
        if step == ExamStep::Refuse {
            let last = frame.len() - 1;
            frame[last] ^= 1;
        }
        Some(CryptoPacket {
            frame,
            job: self.job,
            status: CryptoStatus::Pending,
            sa: EXAM_SA,
            direction: if step == ExamStep::Seal { Direction::Seal } else { Direction::Open },
            class: 0,
            context: FinishContext::default(),
        })
    }

    fn check(&self, step: ExamStep, packet: &CryptoPacket) -> Result<(), &'static str> {
        let is_done = packet.status == CryptoStatus::Done;
        let icv_start = usize::from(self.job.icv_start);
        match step {
            ExamStep::Seal if !is_done || packet.frame[..] != self.sealed[..] => Err("it seals wrongly"),
            ExamStep::Open if !is_done || packet.frame.get(..icv_start) != self.plain.get(..icv_start) => {
                Err("it opens wrongly")
            }
            ExamStep::Refuse if packet.status != CryptoStatus::IcvMismatch => Err("it accepts a wrong ICV"),
            _ => Ok(()),
        }
    }
}

fn job(transform: Transform, head: &[u8], salt: &[u8]) -> CryptoJob {
    let is_gmac = matches!(transform, Transform::Aead(Aead::NullAesGmac(_)));
    let is_plain = is_gmac || matches!(transform, Transform::Chained { cipher: Cipher::Null, .. });
    let icv_start = (head.len() + BODY) as u16;
    let mut job = CryptoJob {
        cipher_start: head.len() as u16,
        cipher_len: if is_plain { 0 } else { BODY as u16 },
        icv_start,
        ..CryptoJob::default()
    };
    let mut nonce = [salt, &head[HEADER..]].concat();
    match transform {
        Transform::Aead(_) => {
            job.aad_len = HEADER as u8;
            job.aad[..HEADER].copy_from_slice(&head[..HEADER]);
            if is_gmac {
                job.auth_start = HEADER as u16;
                job.auth_len = icv_start - HEADER as u16;
            }
        }
        Transform::Chained { cipher, integrity } => {
            job.auth_len = if integrity.is_some() { icv_start } else { 0 };
            if matches!(cipher, Cipher::AesCtr(_)) {
                nonce.extend([0, 0, 0, 1]);
            }
        }
    }
    job.nonce_len = nonce.len() as u8;
    job.nonce[..nonce.len()].copy_from_slice(&nonce);
    job
}

/// The sealed body and the ICV.
fn answer(transform: Transform) -> Vec<u8> {
    let name = transform.to_string();
    let line = ANSWERS.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
    let hex = line.expect("there is an answer for every transform, as a test shows");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("the answers are hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ScriptedEngine;
    use crate::{FaultPlan, Faulty, InPlace, InjectedFault, Multibuffer, Software, transforms};

    fn asked(mut engine: impl Engine) -> Result<(), String> {
        let all = engine.description().transforms.clone();
        ask_known(&mut engine, all).map_err(|error| error.to_string())
    }

    #[test]
    fn engines_agree_with_openssl() {
        assert_eq!(asked(Software::new("software")), Ok(()));
        assert_eq!(transforms().len(), ANSWERS.lines().count(), "an answer for each transform");
        if let Ok(engine) = Multibuffer::inline("multibuffer") {
            assert_eq!(asked(engine), Ok(()));
        }
    }

    #[test]
    fn one_flipped_bit_is_found() {
        let wrong = |transform: Transform, at: usize| {
            let engine = ScriptedEngine::new("wrong").processing(move |software, packets| {
                software.process(packets);
                packets.iter_mut().for_each(|packet| packet.frame[at] ^= 0x10);
            });
            asked(engine.describe(|description| description.transforms = vec![transform]))
        };
        for transform in transforms() {
            let at = HEADER + transform.iv_len() + 5;
            let reported = wrong(transform, at).expect_err("a bit of the body is wrong");
            assert!(
                reported.contains(&format!("known answer of {transform}: it seals wrongly")),
                "{reported}"
            );
        }
    }

    #[test]
    fn fault_that_flips_bits_is_found() {
        let engine =
            Faulty::new(Box::new(Software::new("software")), FaultPlan::once(InjectedFault::Wrong, 40));
        let reported = asked(engine).expect_err("a bit is wrong from the fortieth packet on");
        assert!(reported.contains("known answer of "), "{reported}");
    }

    #[test]
    fn engine_that_does_not_answer_is_not_waited_for_longer() {
        let mut engine = ScriptedEngine::elsewhere("silent", 1, |_| false);
        let asked = ask_known(&mut engine, transforms()[..1].to_vec());
        let reported = asked.expect_err("it is silent").to_string();
        assert!(reported.contains("it did not answer"), "{reported}");
    }

    #[test]
    fn engine_that_accepts_every_icv_is_found() {
        let engine = ScriptedEngine::new("trusting").processing(|software, packets| {
            software.process(packets);
            packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
        });
        let reported = asked(engine).expect_err("it accepts a wrong ICV");
        assert!(reported.contains("it accepts a wrong ICV"), "{reported}");
    }
}
