//! Table of a sweep as a Parquet file, for data frames (polars, pandas, DuckDB).
//!
//! Each column may lack values. Texts are UTF-8, bytes and counts are signed 64-bit numbers, other
//! figures are 64-bit floating-point numbers. Equal tables have equal bytes.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::table::{Column, Kind, Table, text};

/// Name of the program in the file.
const CREATED_BY: &str = concat!("bimetal ", env!("CARGO_PKG_VERSION"));

impl Table<'_> {
    /// Returns the table as a Parquet file.
    ///
    /// # Errors
    /// The table has more rows or columns than the format allows.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        let fields = self.columns.iter().map(field).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("jobs").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_created_by(CREATED_BY.to_owned()).build();
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
        let mut rows = file.next_row_group()?;
        for column in &self.columns {
            let mut writer = rows.next_column()?.expect("the schema has a field for each column");
            write(column, writer.untyped())?;
            writer.close()?;
        }
        rows.close()?;
        file.close()?;
        Ok(bytes)
    }
}

fn field(column: &Column<'_>) -> Result<Arc<Type>> {
    let (physical, logical) = match column.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Whole => (Physical::INT64, None),
        Kind::Number => (Physical::DOUBLE, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical).with_logical_type(logical);
    Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
}

/// Writes the values of a column, and a level for each row: 1 with a value, 0 without.
fn write(column: &Column<'_>, writer: &mut ColumnWriter<'_>) -> Result<()> {
    match writer {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let (levels, values) = split(column, |value| value.as_i64());
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let (levels, values) = split(column, |value| value.as_f64());
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let (levels, values) = split(column, |value| Some(ByteArray::from(text(Some(value)).into_bytes())));
            writer.write_batch(&values, Some(&levels), None)?;
        }
        _ => unreachable!("a field has one of three types"),
    }
    Ok(())
}

fn split<T>(column: &Column<'_>, value: impl Fn(&serde_json::Value) -> Option<T>) -> (Vec<i16>, Vec<T>) {
    let cells: Vec<Option<T>> = column.cells.iter().map(|cell| cell.as_deref().and_then(&value)).collect();
    let levels = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    (levels, cells.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::{Map, Value, json};

    use super::*;

    /// Returns the rows of a file as JSON, read by the library.
    fn read(bytes: Vec<u8>) -> Vec<Map<String, Value>> {
        let value = |field: &Field| match field {
            Field::Null => Value::Null,
            Field::Str(text) => json!(text),
            Field::Long(number) => json!(number),
            Field::Double(number) => json!(number),
            other => panic!("{other:?}"),
        };
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        rows.map(|row| row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()).collect()
    }

    #[test]
    fn cells_keep_their_types_and_gaps() {
        let done = json!({
            "job": {"scheme": "griffin", "options": {"ssd-size": "10%"}}, "trace": {"requests": 7},
            "run": {"ssd_bytes": 1u64 << 40, "throughput": {"iops": 2}, "response_time_ms": {"all": {"mean": 0.5}}},
        });
        let failed = json!({"job": {"scheme": "smq"}, "error": "a 'b', c"});
        let traces = BTreeSet::from(["a", "b"]);
        let bytes = Table::of(&[("k1", &traces, &done), ("k2", &traces, &failed)]).parquet().unwrap();
        let rows = read(bytes.clone());
        let at = |row: usize, names: &[&str]| names.iter().map(|name| rows[row][*name].clone()).collect::<Vec<_>>();
        let names = ["key", "traces", "scheme", "ssd-size", "requests", "error"];
        assert_eq!(at(0, &names), [json!("k1"), json!("a b"), json!("griffin"), json!("10%"), json!(7), Value::Null]);
        assert_eq!(
            at(1, &names),
            [json!("k2"), json!("a b"), json!("smq"), Value::Null, Value::Null, json!("a 'b', c")]
        );
        let figures = ["ssd_bytes", "throughput.iops", "response_time_ms.all.mean"];
        assert_eq!(at(0, &figures), [json!(1u64 << 40), json!(2.0), json!(0.5)]);
        let again = Table::of(&[("k1", &traces, &done), ("k2", &traces, &failed)]).parquet().unwrap();
        assert_eq!(bytes, again);
    }

    #[test]
    fn table_without_rows_is_a_file() {
        assert!(read(Table::of(&[]).parquet().unwrap()).is_empty());
    }
}
