//! Controller work of the predictions of models.

use crate::mapping::Ask;

/// Controller work of a further page that the model of the page before predicts, ns.
///
/// The model is found already, so that what is left is a step on its line: about 25 cycles of a Cortex-A72 at
/// 1.5 GHz, as for a point in a pass of training. LearnedFTL measured 650 ns for a whole prediction on this
/// processor (III-E); no paper says what further pages of a request take.
pub const STEP_NS: u64 = 16;

/// What the predictions for the pages of a request cost: the first page that a model predicts a prediction,
/// each further one [`STEP_NS`]. Every scheme with models is charged by it.
///
/// `M` says which model it is. The next request finds its models anew.
#[derive(Clone, Debug)]
pub struct Predictions<M> {
    predict_ns: u64,
    /// The model of the page before, the LPN of this page, and the end of its request.
    before: Option<(M, u32, u32)>,
}

impl<M: PartialEq> Predictions<M> {
    /// A prediction takes `predict_ns`; where that is less than a step, a step does, too.
    pub fn new(predict_ns: u64) -> Predictions<M> {
        Predictions { predict_ns, before: None }
    }

    /// Controller work, ns, of predicting the page of `ask` by `model`.
    #[inline]
    pub fn ns(&mut self, model: M, ask: Ask) -> u64 {
        let (lpn, end) = (ask.lpn.0, ask.lpn.0 + ask.rest);
        let goes_on = self
            .before
            .as_ref()
            .is_some_and(|(before, last, until)| *before == model && *last < lpn && *until == end);
        self.before = Some((model, lpn, end));
        if goes_on {
            self.predict_ns.min(STEP_NS)
        } else {
            self.predict_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nand::{Done, Lpn};

    /// Work of predicting LPNs one after the other, each with its model and the end of its request.
    fn work(predict_ns: u64, pages: &[(u32, u8, u32)]) -> Vec<u64> {
        let mut predictions = Predictions::new(predict_ns);
        let ask = |lpn: u32, end: u32| Ask { lpn: Lpn(lpn), rest: end - lpn, at: Done::READY };
        pages.iter().map(|&(lpn, model, end)| predictions.ns(model, ask(lpn, end))).collect()
    }

    #[test]
    fn a_request_pays_for_each_model_once() {
        let request = [(10, 1, 16), (11, 1, 16), (13, 1, 16), (14, 2, 16), (15, 2, 16)];
        assert_eq!(work(650, &request), [650, STEP_NS, STEP_NS, 650, STEP_NS]);
        assert_eq!(work(0, &request), [0; 5], "predictions free of charge have no steps to pay for");
    }

    #[test]
    fn the_next_request_finds_its_model_anew() {
        assert_eq!(
            work(650, &[(7, 1, 8), (8, 1, 9), (8, 1, 9), (9, 1, 11), (10, 1, 11)]),
            [650, 650, 650, 650, STEP_NS]
        );
        assert_eq!(work(650, &[(8, 1, 12), (9, 1, 12), (8, 1, 12), (9, 1, 11)]), [650, STEP_NS, 650, 650]);
    }
}
