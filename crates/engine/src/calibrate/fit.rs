//! Lines through measured times.

use convoy_scheduler::{CostModel, Handover, TrainModel};

/// A multi-packet and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) packets: f64,
    pub(super) blocks: f64,
    pub(super) ns: f64,
}

/// A pivot this small compared with its original is a rounding error: two terms are multiples of
/// one another.
const SINGULAR: f64 = 1e-12;

/// An engine's own time, over blocks.
pub(super) fn fit(points: &[Point]) -> CostModel {
    let [t_init, t_block] = least_squares(points, |point| [1.0, point.blocks]);
    CostModel { t_init, t_block }
}

/// An engine's own time for a train, over packets, blocks in all and those of the longest packet.
/// The packets of each point are of one length.
pub(super) fn fit_train(points: &[Point]) -> TrainModel {
    let parts = |point: &Point| [1.0, point.packets, point.blocks, point.blocks / point.packets];
    let [t_init, t_packet, t_block, t_longest] = least_squares(points, parts);
    TrainModel { t_init, t_packet, t_block, t_longest }
}

/// By how much a line over blocks and this model miss the points: the root mean squares of the
/// relative errors.
#[cfg(test)]
pub(super) fn misses(points: &[Point], train: TrainModel) -> [f64; 2] {
    let line = fit(points);
    let miss = |ns: &dyn Fn(&Point) -> f64| {
        let squares = points.iter().map(|point| (ns(point) / point.ns.max(1.0) - 1.0).powi(2));
        (squares.sum::<f64>() / points.len().max(1) as f64).sqrt()
    };
    let of_train = |point: &Point| {
        let of_packets = train.t_packet * point.packets + train.t_longest * point.blocks / point.packets;
        train.t_init + of_packets + train.t_block * point.blocks
    };
    [miss(&|point| line.t_init + line.t_block * point.blocks), miss(&of_train)]
}

/// The time of the caller's core, over packets and blocks: copies count by the block, cache lines
/// of headers and descriptors by the packet, the queue by the multi-packet.
pub(super) fn fit_handover(points: &[Point]) -> Handover {
    let [t_init, t_packet, t_block] = least_squares(points, |point| [1.0, point.packets, point.blocks]);
    Handover { t_init, t_packet, t_block }
}

/// The sum of terms with the least squares of the *relative* errors, so that small multi-packets
/// count as much as large ones. No factor is negative: where the best sum would have one, it is the
/// best without one or more of these terms.
fn least_squares<const N: usize>(points: &[Point], parts: impl Fn(&Point) -> [f64; N]) -> [f64; N] {
    let rows: Vec<[f64; N]> =
        points.iter().map(|point| parts(point).map(|part| part / point.ns.max(1.0))).collect();
    let error = |solution: &[f64; N]| -> f64 {
        let predicted =
            |row: &[f64; N]| row.iter().zip(solution).map(|(part, factor)| part * factor).sum::<f64>();
        rows.iter().map(|row| (predicted(row) - 1.0).powi(2)).sum()
    };
    let with_errors = (1..1_usize << N).filter_map(|used| {
        let solution = solve(&rows, used)?;
        Some((error(&solution), solution))
    });
    let best = with_errors.min_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or([0.0; N], |(_, solution)| solution)
}

/// Factors of the terms whose bits are set in `used` that bring the rows closest to one; `None` if
/// they are undetermined, or one of them is negative.
fn solve<const N: usize>(rows: &[[f64; N]], used: usize) -> Option<[f64; N]> {
    let is_used = |part: usize| used >> part & 1 == 1;
    let (mut matrix, mut right) = ([[0.0; N]; N], [0.0; N]);
    for part in 0..N {
        matrix[part][part] = 1.0;
        if is_used(part) {
            right[part] = rows.iter().map(|row| row[part]).sum();
            for other in (0..N).filter(|other| is_used(*other)) {
                matrix[part][other] = rows.iter().map(|row| row[part] * row[other]).sum();
            }
        }
    }
    let diagonal: [f64; N] = std::array::from_fn(|part| matrix[part][part]);
    // Gauss-Jordan without pivoting: the matrix is symmetric and positive semidefinite.
    for at in 0..N {
        let (pivot, pivot_row, pivot_right) = (matrix[at][at], matrix[at], right[at]);
        if pivot.is_nan() || pivot <= SINGULAR * diagonal[at] {
            return None;
        }
        for row in (0..N).filter(|row| *row != at) {
            let times = matrix[row][at] / pivot;
            right[row] -= times * pivot_right;
            for column in 0..N {
                matrix[row][column] -= times * pivot_row[column];
            }
        }
    }
    let solution: [f64; N] = std::array::from_fn(|part| right[part] / matrix[part][part]);
    solution.iter().all(|factor| factor.is_finite() && *factor >= 0.0).then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets and blocks of what is measured.
    const SIZES: [(f64, f64); 6] =
        [(1.0, 4.0), (4.0, 16.0), (16.0, 64.0), (4.0, 128.0), (1.0, 88.0), (64.0, 5_632.0)];

    fn points(ns: impl Fn(f64, f64) -> f64) -> Vec<Point> {
        SIZES
            .into_iter()
            .map(|(packets, blocks)| Point { packets, blocks, ns: ns(packets, blocks) })
            .collect()
    }

    fn line(t_init: f64, t_block: f64, noise: impl Fn(usize) -> f64) -> CostModel {
        let mut points = points(|_, blocks| t_init + t_block * blocks);
        points.iter_mut().enumerate().for_each(|(at, point)| point.ns *= noise(at));
        fit(&points)
    }

    #[test]
    fn the_terms_of_a_train_are_found_again() {
        let points =
            points(|packets, blocks| 40.0 + 20.0 * packets + 10.0 * blocks + 50.0 * blocks / packets);
        let TrainModel { t_init, t_packet, t_block, t_longest } = fit_train(&points);
        for (found, expected) in [(t_init, 40.0), (t_packet, 20.0), (t_block, 10.0), (t_longest, 50.0)] {
            assert!((found - expected).abs() < 1e-3 * expected, "{found}, not {expected}");
        }
        let [line, all] = misses(&points, fit_train(&points));
        assert!(line > 0.1 && all < 1e-3, "{line}, {all}");
    }

    #[test]
    fn an_exact_line_is_found_again() {
        let model = line(2_000.0, 556.5, |_| 1.0);
        assert!((model.t_init - 2_000.0).abs() < 1e-3 && (model.t_block - 556.5).abs() < 1e-6, "{model:?}");
    }

    #[test]
    fn noise_of_ten_percent_moves_the_line_no_further() {
        let model = line(2_000.0, 556.5, |at| if at % 2 == 0 { 1.1 } else { 0.9 });
        assert!((500.0..=613.0).contains(&model.t_block), "{model:?}");
        assert!(model.t_init > 0.0);
    }

    #[test]
    fn a_negative_start_is_taken_for_zero() {
        let model = line(-20.0, 10.0, |_| 1.0);
        assert_eq!(model.t_init, 0.0);
        assert!((5.0..10.0).contains(&model.t_block), "{model:?}");
    }

    #[test]
    fn times_that_fall_with_the_size_give_a_constant() {
        let model = line(10_000.0, -1.0, |_| 1.0);
        assert_eq!(model.t_block, 0.0);
        assert!((4_000.0..=10_000.0).contains(&model.t_init), "{model:?}");
    }

    #[test]
    fn one_point_or_none_gives_no_nonsense() {
        let point = Point { packets: 1.0, blocks: 4.0, ns: 100.0 };
        assert_eq!(fit(&[point]), CostModel { t_init: 100.0, t_block: 0.0 });
        assert_eq!(fit(&[]), CostModel { t_init: 0.0, t_block: 0.0 });
        assert_eq!(fit_handover(&[point]), Handover { t_init: 100.0, ..Handover::default() });
        assert_eq!(fit_handover(&[]), Handover::default());
    }

    #[test]
    fn an_exact_handover_is_found_again() {
        let handover = fit_handover(&points(|packets, blocks| 150.0 + 80.0 * packets + 0.75 * blocks));
        let Handover { t_init, t_packet, t_block } = handover;
        assert!((t_init - 150.0).abs() < 1e-3 && (t_packet - 80.0).abs() < 1e-3, "{handover:?}");
        assert!((t_block - 0.75).abs() < 1e-3, "{handover:?}");
    }

    #[test]
    fn no_part_of_a_handover_is_negative_and_the_others_make_up_for_it() {
        let handover =
            fit_handover(&points(|packets, blocks| 150.0 + 80.0 * packets - 0.5 * blocks.min(88.0)));
        assert_eq!(handover.t_block, 0.0);
        assert!(handover.t_init > 0.0 && (60.0..=90.0).contains(&handover.t_packet), "{handover:?}");
        // Times too short to be observed are no handover.
        let none = fit_handover(&points(|_, _| 0.0));
        assert!(none.t_init <= 1.0 && none.t_packet <= 1.0 && none.t_block <= 1.0, "{none:?}");
    }
}
