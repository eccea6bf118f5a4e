//! The two steps of a method: credit of a whole batch, then the loss of its responses.

use grpo_lambda::group::{ExtraInputs, Group, InputKind, Response};
use grpo_lambda::methods::{self, Configured, credited_metrics};
use grpo_lambda::metrics::Metrics;
use grpo_lambda_stats::table::significant;
use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::sync::Arc;

use crate::configured::{configure, warn, warn_of_idle};
use crate::groups;
use crate::layout::{Layout, Logps};
use crate::padded::{self, Extras, Mask};
use crate::travel::State;
use crate::values::refused;

/// Rounding may lift a log-probability of 0 this far.
const ROUNDING: f64 = 1e-6;

/// A batch whose credit is fixed. Its length is the number of responses.
#[pyclass(frozen, module = "grpo_lambda")]
pub(crate) struct Credit {
    pub(crate) method: Arc<Configured>,
    /// Responses with their credit, in flat order.
    pub(crate) responses: Vec<(Response, methods::Credit)>,
    /// Size and metrics of each group; empty for a part of a batch.
    pub(crate) of_groups: Vec<(usize, Metrics)>,
    pub(crate) layout: Layout,
    /// Log-probabilities that came with the groups.
    pub(crate) logps: Option<Vec<Vec<f64>>>,
}

/// Credit of groups, each a dictionary.
#[pyfunction]
pub(crate) fn credit(
    py: Python<'_>,
    method: &str,
    groups: Vec<Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Credit> {
    let configured = configure(method, settings)?;
    if groups.is_empty() {
        return Err(refused("groups: none; at least one group is needed"));
    }
    let (mut batch, mut logps) = (Vec::new(), Some(Vec::new()));
    for (g, value) in groups.iter().enumerate() {
        let named = |e: String| refused(format!("groups[{g}]: {e}"));
        let line = groups::read(value).map_err(|e| named(e.value(py).to_string()))?;
        let old = || line.group.responses.iter().map(|r| r.old_logps.clone()).collect();
        let rows: Vec<Vec<f64>> = line.logps.clone().unwrap_or_else(old);
        check_group(&configured, &line.group, &rows).map_err(named)?;
        logps = logps.zip(line.logps).map(|(mut all, own)| {
            all.extend(own);
            all
        });
        batch.push(line.group);
    }
    let layout = Layout::Groups(batch.iter().map(|g| g.responses.len()).collect());
    Credit::of_batch(py, configured, batch, layout, logps)
}

/// Credit of padded rows.
#[pyfunction]
#[pyo3(signature = (method, rewards, old_logps, mask, group_of_row, ref_logps, truncated, tokens, extra_inputs, settings))]
#[allow(clippy::too_many_arguments, reason = "the Python function names them")]
pub(crate) fn credit_padded(
    py: Python<'_>,
    method: &str,
    rewards: &Bound<'_, PyAny>,
    old_logps: &Bound<'_, PyAny>,
    mask: &Bound<'_, PyAny>,
    group_of_row: Vec<usize>,
    ref_logps: Option<&Bound<'_, PyAny>>,
    truncated: Option<&Bound<'_, PyAny>>,
    tokens: Option<&Bound<'_, PyAny>>,
    extra_inputs: Option<&Bound<'_, PyDict>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Credit> {
    let mut configured = configure(method, settings)?;
    let extras = Extras { ref_logps, tokens, truncated, extra_inputs };
    let (mut batch, layout) = padded::read(rewards, old_logps, mask, &group_of_row, &extras)?;
    mask_rows_without_tokens(&mut configured, &mut batch, &layout)?;
    // Trainers meet prompts without a gradable response: these get no credit, and the others keep theirs.
    let graded = |g: &Group| g.responses.iter().any(|r| r.reward.is_some());
    let some = batch.iter().any(graded);
    let mut first = 0;
    for group in &batch {
        let n = group.responses.len();
        refuse_numbers(group, &layout, first)?;
        let old: Vec<Vec<f64>> = group.responses.iter().map(|r| r.old_logps.clone()).collect();
        let named = |e: String| refused(format!("the group of {}: {e}", layout.rows_text(first..first + n)));
        match check_group(&configured, group, &old) {
            Err(_) if some && !graded(group) => {
                let substitute = Group { responses: group.responses.iter().map(as_graded).collect() };
                check_group(&configured, &substitute, &old).map_err(named)?;
            }
            checked => checked.map_err(named)?,
        }
        first += n;
    }
    Credit::of_batch(py, configured, batch, layout, None)
}

/// Rows whose credit was fixed before, in any selection and order.
#[pyfunction]
#[pyo3(signature = (method, advantages, weights, old_logps, mask, eligible, ref_logps, sampler_logps, settings))]
#[allow(clippy::too_many_arguments, reason = "the Python function names them")]
pub(crate) fn credit_from_rows(
    method: &str,
    advantages: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    old_logps: &Bound<'_, PyAny>,
    mask: &Bound<'_, PyAny>,
    eligible: Option<&Bound<'_, PyAny>>,
    ref_logps: Option<&Bound<'_, PyAny>>,
    sampler_logps: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Credit> {
    let configured = configure(method, settings)?;
    let mask = Mask::read(mask)?;
    let advantages = mask.rows("advantages", advantages)?;
    let weights = mask.rows("weights", weights)?;
    let old_logps = mask.rows("old_logps", old_logps)?;
    let eligible = eligible.map(|v| mask.rows("eligible", v)).transpose()?;
    let ref_logps = ref_logps.map(|v| mask.rows("ref_logps", v)).transpose()?;
    let sampler_logps = sampler_logps.map(|v| mask.rows("sampler_logps", v)).transpose()?;
    let given = [
        (InputKind::RefLogps, &ref_logps, "beta"),
        (InputKind::SamplerLogps, &sampler_logps, "correction, reject or off_policy_mask"),
    ];
    for (kind, rows, setting) in given {
        if configured.extra_inputs().contains(&kind) && rows.is_none() {
            return Err(refused(format!("{}: missing; {setting} needs it for every token", kind.name())));
        }
    }
    if configured.method.selects_tokens() && eligible.is_none() {
        return Err(refused(
            "eligible: missing; the trace of this method needs it for every token, as credit_padded gave it",
        ));
    }
    let layout =
        Layout::Padded { width: mask.width, rows: (0..mask.slots.len()).collect(), slots: mask.slots };
    let old_logps_of = old_logps.into_iter().enumerate();
    let response = |(i, old_logps): (usize, Vec<f64>)| {
        let ref_logps = ref_logps.as_ref().map(|rows| rows[i].clone());
        let credit = methods::Credit {
            advantages: advantages[i].clone(),
            weights: weights[i].clone(),
            eligible: eligible.as_ref().map(|rows| rows[i].iter().map(|x| *x != 0.0).collect()),
        };
        let sampler_logps = sampler_logps.as_ref().map(|rows| rows[i].clone());
        let extra_inputs = ExtraInputs { sampler_logps, ..ExtraInputs::default() };
        (Response { ref_logps, extra_inputs, ..Response::graded(old_logps, 0.0) }, credit)
    };
    let responses: Vec<_> = old_logps_of.map(response).collect();
    for (i, (response, credit)) in responses.iter().enumerate() {
        finite(&layout, "advantages", i, &credit.advantages)?;
        finite(&layout, "weights", i, &credit.weights)?;
        finite(&layout, "old_logps", i, &response.old_logps)?;
        finite(&layout, "ref_logps", i, response.ref_logps.as_deref().unwrap_or(&[]))?;
        finite(&layout, "sampler_logps", i, response.extra_inputs.sampler_logps.as_deref().unwrap_or(&[]))?;
    }
    Ok(Credit { method: Arc::new(configured), responses, of_groups: Vec::new(), layout, logps: None })
}

/// Lets rows without a token be masked as responses that were cut off are: their reward counts, they have weight 0 and no tokens.
fn mask_rows_without_tokens(
    configured: &mut Configured,
    batch: &mut [Group],
    layout: &Layout,
) -> PyResult<()> {
    if !(0..batch.iter().map(|g| g.responses.len()).sum()).any(|i| layout.is_empty(i)) {
        return Ok(());
    }
    let mut words: Vec<(String, String)> =
        configured.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let masks = words.iter_mut().find(|(key, _)| key == "mask_truncated");
    if masks.is_some_and(|(_, masks)| std::mem::replace(masks, "true".to_owned()) == "false") {
        let responses = batch.iter_mut().flat_map(|g| &mut g.responses);
        responses.enumerate().for_each(|(i, response)| response.truncated = layout.is_empty(i));
    }
    if configured.spec.name == "opo" {
        // Its baseline weighs rewards by length.
        let responses = batch.iter_mut().flat_map(|g| &mut g.responses).enumerate();
        responses.filter(|(i, _)| layout.is_empty(*i)).for_each(|(_, response)| response.reward = None);
    }
    *configured = methods::configure(configured.spec.name, &words).map_err(refused)?;
    Ok(())
}

/// The response with a reward, so that the check finds its other errors.
fn as_graded(response: &Response) -> Response {
    Response { reward: Some(0.0), ..response.clone() }
}

/// Runs [`Configured::check`], and checks that the method takes responses of this length.
fn check_group(configured: &Configured, group: &Group, logps: &[Vec<f64>]) -> Result<(), String> {
    configured.check(group, logps).map_err(|e| e.to_string())?;
    match configured.method.max_len() {
        Some(limit) if logps.iter().any(|row| row.len() > limit) => Err(format!(
            "logps has a response of {} tokens; with matrix_length={limit} at most {limit} are possible",
            logps.iter().map(Vec::len).max().unwrap_or(0)
        )),
        _ => Ok(()),
    }
}

/// Errors if a number of a padded group is not finite, naming its row and slot.
fn refuse_numbers(group: &Group, layout: &Layout, first: usize) -> PyResult<()> {
    for (i, response) in (first..).zip(&group.responses) {
        finite(layout, "old_logps", i, &response.old_logps)?;
        finite(layout, "ref_logps", i, response.ref_logps.as_deref().unwrap_or(&[]))?;
    }
    Ok(())
}

fn finite(layout: &Layout, field: &str, i: usize, values: &[f64]) -> PyResult<()> {
    match values.iter().position(|x| !x.is_finite()) {
        Some(t) => {
            let place = layout.place(field, i, t);
            Err(refused(format!("{place} = {}; must be a finite number", values[t])))
        }
        None => Ok(()),
    }
}

/// The value with `-0` as 0. Errors if it is not finite.
fn finite_result(mut x: f64, what: impl Fn() -> String) -> Result<f64, String> {
    x += 0.0;
    if x.is_finite() {
        return Ok(x);
    }
    let cause = "rewards, log-probabilities or settings are too large for 64-bit floats";
    Err(format!("{} would be {x}; {cause}", what()))
}

/// Value, gradient and metrics of a batch.
struct Evaluated {
    value: f64,
    dlogps: Vec<Vec<f64>>,
    metrics: Vec<(&'static str, f64)>,
}

impl Credit {
    fn of_batch(
        py: Python<'_>,
        configured: Configured,
        batch: Vec<Group>,
        layout: Layout,
        logps: Option<Vec<Vec<f64>>>,
    ) -> PyResult<Credit> {
        warn_of_idle(py, &configured)?;
        let (mut credits, of_groups) = py.detach(|| {
            let credits = configured.method.credit(&batch);
            let mut left = credits.as_slice();
            let of_group = |g: &Group| {
                let (own, others) = left.split_at(g.responses.len());
                left = others;
                (own.len(), credited_metrics(std::slice::from_ref(g), own))
            };
            let of_groups = batch.iter().map(of_group).collect();
            (credits, of_groups)
        });
        let mut responses: Vec<Response> = batch.into_iter().flat_map(|g| g.responses).collect();
        for i in (0..responses.len()).filter(|&i| layout.is_empty(i)) {
            let eligible = credits[i].eligible.as_ref().map(|_| Vec::new());
            credits[i] = methods::Credit { eligible, ..methods::Credit::default() };
            responses[i] = Response { reward: responses[i].reward, ..Response::graded(Vec::new(), 0.0) };
        }
        let mut found = Vec::new();
        for (i, credit) in credits.iter().enumerate() {
            for (field, values) in [("advantages", &credit.advantages), ("weights", &credit.weights)] {
                if let Some(t) = values.iter().position(|x| !x.is_finite()) {
                    let what = || layout.place(field, i, t);
                    finite_result(values[t], what).map_err(refused)?;
                }
            }
        }
        for (i, r) in responses.iter().enumerate() {
            positives(&layout, "old_logps", i, &r.old_logps, &mut found);
            positives(&layout, "ref_logps", i, r.ref_logps.as_deref().unwrap_or(&[]), &mut found);
        }
        warn_of_positive(py, &found)?;
        let responses = responses.into_iter().zip(credits).collect();
        Ok(Credit { method: Arc::new(configured), responses, of_groups, layout, logps })
    }

    /// The loss of the batch, summed group by group in the order of [`methods::evaluate`].
    fn evaluate(&self, logps: &[&[f64]]) -> Evaluated {
        let mut total =
            Evaluated { value: 0.0, dlogps: Vec::with_capacity(logps.len()), metrics: Vec::new() };
        let mut metrics = Metrics::default();
        let whole = [(self.responses.len(), Metrics::default())];
        let of_groups = if self.of_groups.is_empty() { &whole[..] } else { &self.of_groups[..] };
        let mut rows = self.responses.iter().zip(logps);
        for (size, of_group) in of_groups {
            let (mut value, mut share) = (0.0, of_group.clone());
            for ((response, credit), logps) in rows.by_ref().take(*size) {
                if logps.is_empty() {
                    total.dlogps.push(Vec::new());
                    continue;
                }
                let loss = self.method.method.loss(response, credit, logps);
                value += loss.value;
                share.merge(&loss.metrics);
                total.dlogps.push(loss.dlogps);
            }
            total.value += value;
            metrics.merge(&share);
        }
        total.metrics = metrics.entries();
        total
    }

    /// The rows of `logps` as slices, in flat order; rows with holes are copied into `copies`.
    fn slices<'a>(&self, logps: &'a Logps<'_>, copies: &'a mut Vec<Vec<f64>>) -> PyResult<Vec<&'a [f64]>> {
        let (array, width, slots, rows) = match (logps, &self.layout) {
            (Logps::Rows(rows), _) => return Ok(rows.iter().map(Vec::as_slice).collect()),
            (Logps::Padded(array), Layout::Padded { width, slots, rows }) => (array, *width, slots, rows),
            (Logps::Padded(_), Layout::Groups(_)) => {
                return Err(refused("logps: padded for a batch of groups"));
            }
        };
        let flat = array.as_slice()?;
        *copies = slots
            .iter()
            .zip(rows)
            .filter(|(slots, _)| slots.range().is_none())
            .map(|(slots, &row)| slots.compress(&flat[row * width..(row + 1) * width]))
            .collect();
        let mut copied = copies.iter();
        let slice = |(slots, &row): (&crate::layout::Slots, &usize)| match slots.range() {
            Some(range) => &flat[row * width + range.start..row * width + range.end],
            None => copied.next().map_or(&[][..], Vec::as_slice),
        };
        Ok(slots.iter().zip(rows).map(slice).collect())
    }
}

/// Lists log-probabilities above 0: possible for the density of a continuous policy, a mistake otherwise.
fn positives(layout: &Layout, field: &str, i: usize, values: &[f64], found: &mut Vec<String>) {
    for (t, x) in values.iter().enumerate().filter(|(_, x)| **x > ROUNDING) {
        found.push(format!("{} = {}", layout.place(field, i, t), significant(*x, 17)));
    }
}

fn warn_of_positive(py: Python<'_>, found: &[String]) -> PyResult<()> {
    let Some(first) = found.first() else { return Ok(()) };
    let more = if found.len() > 1 { format!(" (and {} more)", found.len() - 1) } else { String::new() };
    warn(py, &format!("{first}{more} used as it is; a log-probability is at most 0"))
}

#[pymethods]
impl Credit {
    /// The loss, its gradient in the form of the batch, and the metrics.
    #[pyo3(signature = (logps = None))]
    fn loss<'py>(
        &self,
        py: Python<'py>,
        logps: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(f64, Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let given = match logps {
            Some(value) => self.layout.logps(value)?,
            None => Logps::Rows(self.logps.clone().ok_or_else(|| {
                refused(
                    "logps: missing; give the current log-probabilities, or credit of groups that have them",
                )
            })?),
        };
        let mut copies = Vec::new();
        let slices = self.slices(&given, &mut copies)?;
        let mut found = Vec::new();
        for (i, (slice, (response, _))) in slices.iter().zip(&self.responses).enumerate() {
            if slice.len() != response.len() {
                let (place, expected) = (self.layout.row_place("logps", i), response.len());
                let found = slice.len();
                return Err(refused(format!(
                    "{place} has {found} entries, its old_logps {expected}; one per token is needed"
                )));
            }
            finite(&self.layout, "logps", i, slice)?;
            positives(&self.layout, "logps", i, slice, &mut found);
        }
        warn_of_positive(py, &found)?;
        let mut evaluated = py.detach(|| self.evaluate(&slices));
        let value = finite_result(evaluated.value, || "loss".to_owned()).map_err(refused)?;
        for (i, row) in evaluated.dlogps.iter_mut().enumerate() {
            for (t, x) in row.iter_mut().enumerate() {
                *x = finite_result(*x, || self.layout.place("dlogps", i, t)).map_err(refused)?;
            }
        }
        let metrics = PyDict::new(py);
        for (name, x) in &evaluated.metrics {
            metrics.set_item(name, finite_result(*x, || format!("metrics.{name}")).map_err(refused)?)?;
        }
        Ok((value, self.layout.give(py, &evaluated.dlogps, 0.0)?, metrics))
    }

    /// The loss at `logps`, where weights that the method holds constant have the values that they have at `frozen`.
    #[pyo3(name = "_loss_around")]
    fn loss_around(&self, logps: &Bound<'_, PyAny>, frozen: &Bound<'_, PyAny>) -> PyResult<f64> {
        let (logps, frozen) = (self.layout.logps(logps)?, self.layout.logps(frozen)?);
        let (mut of_logps, mut of_frozen) = (Vec::new(), Vec::new());
        let rows = self.slices(&logps, &mut of_logps)?.into_iter().zip(self.slices(&frozen, &mut of_frozen)?);
        let of_row =
            |((response, credit), (logps, frozen)): (&(Response, methods::Credit), (&[f64], &[f64]))| {
                self.method.method.loss_around(response, credit, logps, frozen).value
            };
        Ok(self.responses.iter().zip(rows).map(of_row).sum())
    }

    /// The share of clipped tokens of each response at the lower and at the upper bound, an array of shape `(B, 2)`; 0 without a token.
    #[pyo3(name = "_clip_fractions")]
    fn clip_fractions<'py>(
        &self,
        py: Python<'py>,
        logps: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (given, mut copies) = (self.layout.logps(logps)?, Vec::new());
        let of_row = |((response, credit), logps): (&(Response, methods::Credit), &&[f64])| match logps {
            [] => vec![0.0; 2],
            logps => {
                let metrics = self.method.method.loss(response, credit, logps).metrics;
                vec![metrics.clip_fraction_low(), metrics.clip_fraction_high()]
            }
        };
        let rows: Vec<_> =
            self.responses.iter().zip(&self.slices(&given, &mut copies)?).map(of_row).collect();
        Ok(PyArray2::from_vec2(py, &rows)?)
    }

    /// The name of the method.
    #[getter]
    fn method(&self) -> &'static str {
        self.method.spec.name
    }

    /// Every setting with its value, as text.
    #[getter]
    fn settings(&self) -> Vec<(String, String)> {
        self.method.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    /// The advantage of every token, in the form of the batch.
    #[getter]
    fn advantages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values: Vec<Vec<f64>> =
            self.responses.iter().map(|(_, c)| c.advantages.iter().map(|x| x + 0.0).collect()).collect();
        self.layout.give(py, &values, 0.0)
    }

    /// The weight of every token in the loss, 0 where it is masked.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values: Vec<Vec<f64>> = self.responses.iter().map(|(_, c)| c.weights.clone()).collect();
        self.layout.give(py, &values, 0.0)
    }

    /// True for each token that a selective trace may read. `None` if the trace reads all.
    #[getter]
    fn eligible<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let rows: Option<Vec<Vec<bool>>> = self.responses.iter().map(|(_, c)| c.eligible.clone()).collect();
        rows.map(|rows| self.layout.give(py, &rows, false)).transpose()
    }

    /// Pickles and copies: an equal credit, without the extra inputs that only fixed it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (State<'py>,))> {
        let restore = py.import("grpo_lambda._native")?.getattr("_restored_credit")?;
        Ok((restore, (self.state(py),)))
    }

    /// Annotations name the form of a batch: `Credit[NDArray]`.
    #[classmethod]
    fn __class_getitem__<'py>(cls: &Bound<'py, PyType>, _form: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        cls.clone()
    }

    fn __len__(&self) -> usize {
        self.responses.len()
    }

    fn __repr__(&self) -> String {
        let tokens: usize = self.responses.iter().map(|(r, _)| r.len()).sum();
        format!("<Credit of {}: {} responses, {tokens} tokens>", self.method.spec.name, self.responses.len())
    }
}
