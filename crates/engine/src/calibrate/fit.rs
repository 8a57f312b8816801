//! A line through measured times.

use convoy_scheduler::CostModel;

/// One size and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) blocks: f64,
    pub(super) ns: f64,
}

/// The line with the least squares of the *relative* errors; neither of its parts is negative.
pub(super) fn fit(points: &[Point]) -> CostModel {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for Point { blocks, ns } in points {
        let weight = 1.0 / (ns * ns);
        w += weight;
        wx += weight * blocks;
        wy += weight * ns;
        wxx += weight * blocks * blocks;
        wxy += weight * blocks * ns;
    }
    let determinant = w * wxx - wx * wx;
    let t_block = (w * wxy - wx * wy) / determinant;
    let t_init = (wy - t_block * wx) / w;
    if t_init.is_finite() && t_init >= 0.0 && t_block >= 0.0 {
        CostModel { t_init, t_block }
    } else if t_block > 0.0 {
        // Below zero the line starts at zero, and its slope is fitted again.
        CostModel { t_init: 0.0, t_block: wxy / wxx }
    } else {
        CostModel { t_init: if w > 0.0 { wy / w } else { 0.0 }, t_block: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(t_init: f64, t_block: f64, noise: impl Fn(usize) -> f64) -> CostModel {
        let points: Vec<Point> = [4.0, 16.0, 64.0, 256.0, 88.0, 5_632.0]
            .into_iter()
            .enumerate()
            .map(|(at, blocks)| Point { blocks, ns: (t_init + t_block * blocks) * noise(at) })
            .collect();
        fit(&points)
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
        assert_eq!(fit(&[Point { blocks: 4.0, ns: 100.0 }]), CostModel { t_init: 100.0, t_block: 0.0 });
        assert_eq!(fit(&[]), CostModel { t_init: 0.0, t_block: 0.0 });
    }
}
