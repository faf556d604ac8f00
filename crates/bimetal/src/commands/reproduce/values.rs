//! Values of an experiment, for `--json` and the tables: the paper's, where its text has them,
//! beside ours.

use serde::Serialize;

use crate::sheet::{Cell, Sheet};

/// A value of an experiment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Value {
    /// Figure, table or section of the paper.
    pub(super) place: &'static str,
    /// Drive, workload or layer.
    pub(super) subject: String,
    pub(super) quantity: String,
    pub(super) unit: &'static str,
    /// Value of the paper; null if its text has none.
    pub(super) paper: Option<f64>,
    /// Our value; null if it is not finite, such as the life of flash that is never erased.
    pub(super) ours: Option<f64>,
}

impl Value {
    pub(super) fn new(
        place: &'static str,
        subject: &str,
        quantity: &str,
        unit: &'static str,
        paper: Option<f64>,
        ours: f64,
    ) -> Self {
        let ours = Some(ours).filter(|ours| ours.is_finite());
        Self { place, subject: subject.to_owned(), quantity: quantity.to_owned(), unit, paper, ours }
    }
}

/// Document that `--json` prints for an experiment.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) experiment: &'static str,
    pub(super) paper: &'static str,
    pub(super) summary: &'static str,
    pub(super) values: &'a [Value],
}

/// Returns a row for each value.
pub(super) fn sheet(values: &[Value]) -> Sheet {
    let mut sheet = Sheet::new(["place", "subject", "quantity", "unit", "paper", "ours"]);
    for Value { place, subject, quantity, unit, paper, ours } in values {
        let [subject, quantity] = [subject, quantity].map(|text| Cell::from(text.clone()));
        sheet.push([Cell::from(*place), subject, quantity, Cell::from(*unit), (*paper).into(), (*ours).into()]);
    }
    sheet
}
