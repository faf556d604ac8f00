//! Makes a file of drives out of a table in CSV: a line for each size of a model.

use std::collections::BTreeMap;

use bimetal_models::spelling::nearest;
use toml::{Table, Value};

use super::figures::{DRIVE_KEYS, Key, Shape, UNKNOWN};
use super::{DriveError, DriveFile, bytes_of, load};

/// Columns that every table has.
pub const NEEDED: [&str; 3] = ["model", "kind", "size"];

/// Columns other than [`NEEDED`] and the keys of [`DRIVE_KEYS`].
pub const OTHERS: [&str; 10] = [
    "name",
    "note",
    "sources",
    "unverified",
    "price_usd",
    "price_eur",
    "price_date",
    "price_market",
    "price_condition",
    "price_sources",
];

/// Separator of several values in a cell.
const SEPARATOR: char = ';';

/// A line of the table: number from 1, and the cells that are not empty, by column.
struct Line {
    number: usize,
    cells: BTreeMap<String, String>,
}

impl Line {
    fn cell(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(String::as_str)
    }

    fn list(&self, column: &str) -> Vec<String> {
        let cell = self.cell(column).unwrap_or_default();
        cell.split(SEPARATOR).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }
}

/// Makes a file of drives out of the table `text`. Messages call the table `name`.
///
/// # Errors
/// Returns an error if the text is not CSV, a column is unknown or missing, lines of a model
/// contradict each other, or a drive is invalid.
pub fn from_csv(text: &str, name: &str) -> Result<DriveFile, DriveError> {
    let lines = lines(text, name)?;
    let mut models: Vec<(&str, Vec<&Line>)> = Vec::new();
    for line in &lines {
        let model = line.cell("model").unwrap_or_default();
        match models.iter_mut().find(|(known, _)| *known == model) {
            Some((_, lines)) => lines.push(line),
            None => models.push((model, vec![line])),
        }
    }
    let mut sources = Sources::default();
    let drives: Result<Vec<Value>, _> =
        models.into_iter().map(|(_, lines)| drive(lines, name, &mut sources).map(Value::Table)).collect();
    let mut file = Table::new();
    file.insert("drive".to_owned(), Value::Array(drives?));
    file.insert("sources".to_owned(), Value::Table(sources.0));
    load::of_table(file, name)
}

/// Sources by the names that the file gives them.
#[derive(Default)]
struct Sources(Table);

impl Sources {
    /// Returns the names of `texts`, each new text under a new name.
    fn names(&mut self, texts: Vec<String>) -> Value {
        Value::Array(texts.into_iter().map(|text| Value::String(self.name(text))).collect())
    }

    fn name(&mut self, text: String) -> String {
        if let Some((name, _)) = self.0.iter().find(|(_, known)| known.as_str() == Some(&text)) {
            return name.clone();
        }
        let short: String = name_of(&text).chars().take(40).collect();
        let short = short.trim_matches('-');
        let mut name = short.to_owned();
        let mut number = 2;
        while name.is_empty() || self.0.contains_key(&name) {
            name = format!("{short}-{number}");
            number += 1;
        }
        self.0.insert(name.clone(), Value::String(text));
        name
    }
}

/// Returns a text in lower-case letters and digits, with hyphens in place of every other character.
fn name_of(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.trim_end_matches('-').to_owned()
}

fn wrong(file: &str, line: usize, reason: impl Into<String>) -> DriveError {
    DriveError::Line { file: file.to_owned(), line, reason: reason.into() }
}

/// Makes the entry of a model out of its lines.
fn drive(mut lines: Vec<&Line>, file: &str, sources: &mut Sources) -> Result<Table, DriveError> {
    let size_of = |line: &Line| line.cell("size").and_then(bytes_of);
    lines.sort_by_key(|line| size_of(line));
    if let Some(pair) = lines.windows(2).find(|pair| size_of(pair[0]) == size_of(pair[1])) {
        let (first, again) = (pair[0].number, pair[1].number);
        let size = pair[1].cell("size").unwrap_or_default();
        let reason = format!("size = {size}: line {first} has this size of the model: expected a line for each size");
        return Err(wrong(file, again, reason));
    }
    let mut entry = Table::new();
    for column in ["model", "kind", "name", "note"] {
        if let Some(cell) = common(&lines, column, file)? {
            entry.insert(column.to_owned(), Value::String(cell.to_owned()));
        }
    }
    let model = entry.get("model").and_then(Value::as_str).unwrap_or_default();
    let name = name_of(model);
    entry.entry("name").or_insert(Value::String(name));
    let sizes = lines.iter().filter_map(|line| line.cell("size")).map(|size| Value::String(size.to_owned()));
    entry.insert("sizes".to_owned(), Value::Array(sizes.collect()));
    for key in DRIVE_KEYS {
        if let Some(value) = figure(&lines, key, file)? {
            entry.insert(key.name.to_owned(), value);
        }
    }
    let of_all = common(&lines, "sources", file)?.is_some();
    if of_all {
        let texts = lines.iter().map(|line| line.list("sources")).find(|list| !list.is_empty());
        entry.insert("sources".to_owned(), sources.names(texts.unwrap_or_default()));
    }
    let unverified = unverified(&lines, &entry, of_all);
    if !unverified.is_empty() {
        entry.insert("unverified".to_owned(), Value::Array(unverified.into_iter().map(Value::String).collect()));
    }
    let prices = prices(&lines, file, sources)?;
    if !prices.is_empty() {
        entry.insert("price".to_owned(), Value::Array(prices));
    }
    Ok(entry)
}

/// Returns the cell of a column that has one value for all sizes. Empty cells are ignored.
fn common<'a>(lines: &[&'a Line], column: &str, file: &str) -> Result<Option<&'a str>, DriveError> {
    let mut found: Option<(&Line, &str)> = None;
    for line in lines {
        let Some(cell) = line.cell(column) else { continue };
        match found {
            Some((first, other)) if other != cell => {
                let reason = format!("{column} = {cell}: expected {other}, as in line {}", first.number);
                return Err(wrong(file, line.number, reason));
            }
            _ => found = Some((line, cell)),
        }
    }
    Ok(found.map(|(_, cell)| cell))
}

/// Returns the value of a figure: a number for all sizes if all lines have the same number.
fn figure(lines: &[&Line], key: &Key, file: &str) -> Result<Option<Value>, DriveError> {
    if key.shape != Shape::PerSize {
        let Some(cell) = common(lines, key.name, file)? else { return Ok(None) };
        let list = || cell.split(SEPARATOR).map(|part| number_or_text(part.trim())).collect();
        return Ok(Some(if key.shape == Shape::List { Value::Array(list()) } else { Value::String(cell.to_owned()) }));
    }
    Ok(per_size(lines, key.name, key.name == "tbw_tb"))
}

/// Returns the numbers of a column: a list if `as_list`, or if they differ.
fn per_size(lines: &[&Line], column: &str, as_list: bool) -> Option<Value> {
    let value = |line: &&Line| line.cell(column).map_or(Value::String(UNKNOWN.to_owned()), number_or_text);
    let values: Vec<Value> = lines.iter().map(value).collect();
    if values.iter().all(|value| value.as_str() == Some(UNKNOWN)) {
        return None;
    }
    let is_same = values.windows(2).all(|pair| pair[0] == pair[1]);
    Some(if is_same && !as_list { values[0].clone() } else { Value::Array(values) })
}

/// Returns the text as a number if it is a number, and otherwise as a text. The loader refuses a
/// text where a number is expected.
fn number_or_text(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(number), _) => Value::Integer(number),
        (_, Ok(number)) => Value::Float(number),
        _ => Value::String(text.to_owned()),
    }
}

/// Returns the entries of `unverified`: all figures if the model has no sources. A key that only
/// some lines name becomes `KEY@SIZE`.
fn unverified(lines: &[&Line], entry: &Table, has_sources: bool) -> Vec<String> {
    let keys = || std::iter::once("sizes").chain(DRIVE_KEYS.iter().map(|key| key.name));
    if !has_sources {
        return keys().filter(|key| entry.contains_key(*key)).map(str::to_owned).collect();
    }
    let named: Vec<Vec<String>> = lines.iter().map(|line| line.list("unverified")).collect();
    let mut found: Vec<String> = Vec::new();
    let mut all: Vec<&String> = named.iter().flatten().collect();
    all.sort();
    all.dedup();
    for key in all {
        let is_list = entry.get(key).is_some_and(Value::is_array) && key != "logical_sector_bytes";
        if !is_list || named.iter().all(|keys| keys.contains(key)) {
            found.push(key.clone());
            continue;
        }
        let of_line = lines.iter().zip(&named).filter(|(_, keys)| keys.contains(key));
        found.extend(of_line.filter_map(|(line, _)| Some(format!("{key}@{}", line.cell("size")?))));
    }
    found
}

/// Returns the price lists of a model: a list for each date, market, condition and source.
fn prices(lines: &[&Line], file: &str, sources: &mut Sources) -> Result<Vec<Value>, DriveError> {
    const ABOUT: [&str; 4] = ["price_date", "price_market", "price_condition", "price_sources"];
    let has_price = |line: &&Line| line.cell("price_usd").is_some() || line.cell("price_eur").is_some();
    let mut lists: BTreeMap<[Option<&str>; 5], Vec<usize>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| has_price(line)) {
        if line.cell("price_usd").is_some() && line.cell("price_eur").is_some() {
            return Err(wrong(file, line.number, "price_eur: expected price_usd or price_eur, not both"));
        }
        price_is_a_number(line, file)?;
        let [date, market, condition, source] = ABOUT.map(|column| line.cell(column));
        let currency = if line.cell("price_usd").is_some() { "usd" } else { "eur" };
        lists.entry([date, market, condition, source, Some(currency)]).or_default().push(at);
    }
    let list = |([date, market, condition, _, currency], of): ([Option<&str>; 5], Vec<usize>)| {
        let currency = currency.unwrap_or("usd");
        let column = format!("price_{currency}");
        let amount = |(at, line): (usize, &&Line)| match line.cell(&column).filter(|_| of.contains(&at)) {
            Some(cell) => number_or_text(cell),
            None => Value::String(UNKNOWN.to_owned()),
        };
        let mut price = Table::new();
        price.insert(currency.to_owned(), Value::Array(lines.iter().enumerate().map(amount).collect()));
        for (key, cell) in [("date", date), ("market", market), ("condition", condition)] {
            if let Some(cell) = cell {
                price.insert(key.to_owned(), Value::String(cell.to_owned()));
            }
        }
        let texts = lines[of[0]].list("price_sources");
        match texts.is_empty() {
            true => price.insert("unverified".to_owned(), Value::Boolean(true)),
            false => price.insert("sources".to_owned(), sources.names(texts)),
        };
        Value::Table(price)
    };
    Ok(lists.into_iter().map(list).collect())
}

fn price_is_a_number(line: &Line, file: &str) -> Result<(), DriveError> {
    for column in ["price_usd", "price_eur"] {
        let Some(cell) = line.cell(column).filter(|&cell| cell != UNKNOWN) else { continue };
        if !cell.parse::<f64>().is_ok_and(|price| price > 0.0 && price.is_finite()) {
            let reason = format!("{column} = {cell}: expected a number above 0 like 79.90, with a point, or no price");
            return Err(wrong(file, line.number, reason));
        }
    }
    Ok(())
}

/// Reads the lines below the heading.
fn lines(text: &str, file: &str) -> Result<Vec<Line>, DriveError> {
    let mut rows = rows(text, file)?.into_iter();
    let (first, heading) =
        rows.next().ok_or_else(|| wrong(file, 1, format!("no heading: expected {}", NEEDED.join(","))))?;
    columns_are_known(&heading, file, first)?;
    let mut lines = Vec::new();
    for (number, cells) in rows {
        if cells.len() != heading.len() {
            let reason = format!("{} cells: expected {}, as in the heading", cells.len(), heading.len());
            return Err(wrong(file, number, reason));
        }
        let cells = heading.iter().cloned().zip(cells).filter(|(_, cell)| !cell.is_empty());
        let line = Line { number, cells: cells.collect() };
        if let Some(column) = NEEDED.iter().find(|column| line.cell(column).is_none()) {
            return Err(wrong(file, number, format!("{column} is empty: expected model, kind and size in each line")));
        }
        let size = line.cell("size").unwrap_or_default();
        if bytes_of(size).is_none() {
            return Err(wrong(file, number, format!("size = {size}: expected a size like 1.92TB, at least 1MiB")));
        }
        lines.push(line);
    }
    match lines.is_empty() {
        true => Err(wrong(file, first, "no line below the heading: expected a line for each size of a model")),
        false => Ok(lines),
    }
}

fn columns_are_known(heading: &[String], file: &str, line: usize) -> Result<(), DriveError> {
    let known: Vec<&str> = NEEDED.into_iter().chain(OTHERS).chain(DRIVE_KEYS.iter().map(|key| key.name)).collect();
    if let [only] = heading
        && only.contains(';')
    {
        return Err(wrong(file, line, "semicolons between the columns: expected commas"));
    }
    for (at, column) in heading.iter().enumerate() {
        if !known.contains(&column.as_str()) {
            let near = nearest(column, known.iter().copied()).unwrap_or("model");
            let reason = format!("unknown column '{column}': expected a known column, such as {near}");
            return Err(wrong(file, line, format!("{reason}; `bimetal catalog import --help` lists the columns")));
        }
        if heading[..at].contains(column) {
            return Err(wrong(file, line, format!("column '{column}' is there twice: expected each column once")));
        }
    }
    match NEEDED.iter().find(|column| !heading.iter().any(|known| known == *column)) {
        Some(column) => Err(wrong(file, line, format!("no column '{column}': expected {}", NEEDED.join(", ")))),
        None => Ok(()),
    }
}

/// A row of a CSV text: number of its first line, and its cells.
type Row = (usize, Vec<String>);

/// Splits a CSV text (RFC 4180) into rows of trimmed cells. Empty lines are ignored.
fn rows(text: &str, file: &str) -> Result<Vec<Row>, DriveError> {
    let mut rows = Vec::new();
    let (mut cells, mut cell, mut number) = (Vec::new(), String::new(), 1);
    let (mut is_quoted, mut first) = (false, 1);
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    loop {
        let letter = letters.next();
        match letter {
            Some('"') if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            Some('"') if is_quoted || cell.trim().is_empty() => is_quoted = !is_quoted,
            None if is_quoted => return Err(wrong(file, first, "a cell does not end: expected a closing quote")),
            Some(',') if !is_quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            Some('\n') | None if !is_quoted => {
                cells.push(std::mem::take(&mut cell).trim().to_owned());
                let row = std::mem::take(&mut cells);
                if row.iter().any(|cell| !cell.is_empty()) {
                    rows.push((first, row));
                }
                first = number + 1;
            }
            Some(letter) => cell.push(letter),
            None => {}
        }
        number += usize::from(letter == Some('\n'));
        if letter.is_none() {
            return Ok(rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "model,kind,size,cell,tbw_tb,dwpd,price_usd,price_date,price_sources,sources,unverified,logical_sector_bytes\r\n\
        \"X 1, fast\",ssd,2TB,TLC,1200,0.3,170,2026-11,shop,data sheet; review,tbw_tb;cell,512;4096\r\n\
        \"X 1, fast\",ssd,1TB,TLC,600,0.3,90,2026-11,shop,data sheet; review,,\r\n\
        \n\
        Y,hdd,8TB,,,,,,,,,\n";

    /// `Y` lacks a recording, which every hard disk has.
    #[test]
    fn table_becomes_a_file_of_the_same_schema() {
        let error = from_csv(TABLE, "t.csv").unwrap_err().to_string();
        assert_eq!(error, "t.csv: y: recording is missing: expected CMR, DM-SMR or HM-SMR");
        let text = TABLE.replace("Y,hdd,8TB,,,,,,,,,", "Y,ssd,8TB,,,1,200,2026,,,,");
        let file = from_csv(&text, "t.csv").unwrap();
        let (x, y) = (&file.drives[0], &file.drives[1]);
        assert_eq!((x.name.as_str(), x.model.as_str()), ("x-1-fast", "X 1, fast"));
        assert_eq!(x.sizes.iter().map(|size| size.text.as_str()).collect::<Vec<_>>(), ["1TB", "2TB"]);
        assert_eq!(x.provenance.unverified, ["cell", "tbw_tb@2TB"]);
        assert_eq!((x.price(0).unwrap().1, x.price(1).unwrap().1, x.prices.len()), (90.0, 170.0, 1));
        assert_eq!(x.figures.logical_sector_bytes.as_deref(), Some(&[512, 4096][..]));
        assert_eq!(x.provenance.sources, ["data-sheet", "review"]);
        assert_eq!(y.provenance.unverified, ["sizes", "dwpd"]);
        assert_eq!(y.prices[0].unverified, Some(true));
        let toml = toml::to_string(&file).unwrap();
        assert_eq!(load::parse(&toml, "t.csv").unwrap(), file, "{toml}");
    }

    #[test]
    fn wrong_table_is_refused_with_its_line() {
        let refused = |text: &str| from_csv(text, "t.csv").unwrap_err().to_string();
        assert_eq!(refused(""), "t.csv: line 1: no heading: expected model,kind,size");
        assert_eq!(refused("model,kind\nX,ssd\n"), "t.csv: line 1: no column 'size': expected model, kind, size");
        let message = refused("model,kind,size,dwdp\n");
        assert!(
            message.starts_with("t.csv: line 1: unknown column 'dwdp': expected a known column, such as dwpd;"),
            "{message}"
        );
        assert!(refused("model,kind,size\n").contains("line 1: no line below the heading"));
        assert_eq!(refused("model,kind,size\n\nX,ssd\n"), "t.csv: line 3: 2 cells: expected 3, as in the heading");
        assert!(refused("model,kind,size\nX,ssd,big\n").starts_with("t.csv: line 2: size = big: expected a size like"));
        assert!(refused("model,kind,size\nX,,1TB\n").starts_with("t.csv: line 2: kind is empty"));
        assert!(refused("model,kind,size\n\"X,ssd,1TB\n").contains("line 2: a cell does not end"));
        let contradiction = "model,kind,size,cell,dwpd\nX,ssd,1TB,TLC,1\nX,ssd,2TB,QLC,1\n";
        assert_eq!(refused(contradiction), "t.csv: line 3: cell = QLC: expected TLC, as in line 2");
        let text = "model,kind,size,dwpd\nX,ssd,1TB,lots\n";
        assert_eq!(refused(text), "t.csv: x: dwpd = \"lots\": expected a number above 0, or one for each of sizes");
        let text = "model,kind,size,dwpd\nX,ssd,1TB,1\nX,ssd,1TB,1\n";
        let again = "t.csv: line 3: size = 1TB: line 2 has this size of the model: expected a line for each size";
        assert_eq!(refused(text), again);
        for price in ["0", "\"79,90\"", "$190", "-5", "inf"] {
            let text = format!("model,kind,size,dwpd,price_usd,price_date\nX,ssd,1TB,1,{price},2026\n");
            let expected = format!("line 2: price_usd = {}: expected a number above 0", price.trim_matches('"'));
            assert!(refused(&text).contains(&expected), "{}", refused(&text));
        }
        assert_eq!(
            refused("model;kind;size\nX;ssd;1TB\n"),
            "t.csv: line 1: semicolons between the columns: expected commas"
        );
        let text = "model,kind,size,dwpd,price_usd\nX,ssd,1TB,1,90\n";
        assert!(refused(text).starts_with("t.csv: x: price: date is missing: expected a date"), "{}", refused(text));
    }

    #[test]
    fn quotes_and_line_ends_in_cells_are_kept() {
        let rows = rows("a,\"b \"\"c\"\"\nd\", e\n\nf,,\n", "t.csv").unwrap();
        assert_eq!(rows[0], (1, vec!["a".to_owned(), "b \"c\"\nd".to_owned(), "e".to_owned()]));
        assert_eq!(rows[1], (4, vec!["f".to_owned(), String::new(), String::new()]));
    }
}
