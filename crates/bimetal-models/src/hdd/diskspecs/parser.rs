//! Parser of DiskSim's parameter files: blocks of `key = value` in braces, lists in brackets, `#`
//! to the line's end.

use std::cell::Cell;
use std::fmt;

use super::DiskspecsError;

/// Value of a key.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Number(f64),
    Word(String),
    /// File named by `source FILE`.
    Source(String),
    List(Vec<Value>),
    Block(Block),
}

/// Block `kind name { key = value, … }`; a block without a name is inside another.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) items: Vec<Item>,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Word(word) => f.write_str(word),
            Value::Source(file) => write!(f, "source {file}"),
            Value::List(values) => write!(f, "a list of {}", values.len()),
            Value::Block(block) => write!(f, "{} {{ … }}", block.kind),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Value,
    /// Set once the setting was looked up.
    pub(super) used: Cell<bool>,
}

/// Parses the blocks of a file.
///
/// # Errors
/// Returns the line of the error, and the text that was expected in this line.
pub(super) fn parse(text: &str, file: &str) -> Result<Vec<Block>, DiskspecsError> {
    let mut parser = Parser { tokens: tokens(text), next: 0, file };
    let mut blocks = Vec::new();
    while parser.peek().is_some() {
        let line = parser.line();
        let words = parser.words();
        // The text after the blocks instantiates them, which does not concern the drive.
        if words.first().is_some_and(|word| word == "instantiate" || word == "topology") {
            break;
        }
        match words.split_first() {
            Some((kind, name)) => blocks.push(parser.block(kind, &name.join(" "), line)?),
            None => return Err(parser.unexpected("the kind and name of a block")),
        }
    }
    Ok(blocks)
}

/// Token with its line.
type Token<'a> = (&'a str, usize);

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '{' | '}' | '[' | ']' | '=' | ',' => 1,
                _ => rest.find(|c: char| c.is_whitespace() || "{}[]=,".contains(c)).unwrap_or(rest.len()),
            };
            tokens.push((&rest[..length], index + 1));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    file: &'a str,
}

/// Deepest nesting of blocks and lists in parameter files.
const DEPTH_MAX: usize = 16;

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).map(|token| token.0)
    }

    fn line(&self) -> usize {
        let last = self.tokens.last().map_or(1, |token| token.1);
        self.tokens.get(self.next).map_or(last, |token| token.1)
    }

    fn unexpected(&self, expected: &str) -> DiskspecsError {
        DiskspecsError::Syntax {
            file: self.file.to_owned(),
            line: self.line(),
            found: self.peek().unwrap_or("the end of the file").to_owned(),
            expected: expected.to_owned(),
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), DiskspecsError> {
        if self.peek() != Some(token) {
            return Err(self.unexpected(&format!("'{token}'")));
        }
        self.next += 1;
        Ok(())
    }

    /// Takes the words up to the next sign.
    fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(word) = self.peek().filter(|token| !"{}[]=,".contains(token)) {
            words.push(word.to_owned());
            self.next += 1;
        }
        words
    }

    fn block(&mut self, kind: &str, name: &str, line: usize) -> Result<Block, DiskspecsError> {
        self.block_at(kind, name, line, 0)
    }

    fn block_at(&mut self, kind: &str, name: &str, line: usize, depth: usize) -> Result<Block, DiskspecsError> {
        self.expect("{")?;
        let mut block = Block { kind: kind.to_owned(), name: name.to_owned(), line, items: Vec::new() };
        loop {
            while self.peek() == Some(",") {
                self.next += 1;
            }
            if self.peek() == Some("}") {
                self.next += 1;
                return Ok(block);
            }
            let line = self.line();
            let key = self.words().join(" ");
            if key.is_empty() {
                return Err(self.unexpected("a key, or '}'"));
            }
            self.expect("=")?;
            block.items.push(Item { key, line, value: self.value(depth)?, used: Cell::new(false) });
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, DiskspecsError> {
        if depth > DEPTH_MAX {
            return Err(self.unexpected("less nesting"));
        }
        if self.peek() == Some("[") {
            self.next += 1;
            return self.list(depth);
        }
        let line = self.line();
        let words = self.words();
        match words.as_slice() {
            [] => Err(self.unexpected("a value")),
            [source, file] if source == "source" => Ok(Value::Source(file.clone())),
            [kind, name @ ..] if self.peek() == Some("{") => {
                self.block_at(kind, &name.join(" "), line, depth + 1).map(Value::Block)
            }
            [number] if number.parse::<f64>().is_ok_and(f64::is_finite) => {
                Ok(Value::Number(number.parse().unwrap_or_default()))
            }
            words => Ok(Value::Word(words.join(" "))),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, DiskspecsError> {
        let mut values = Vec::new();
        loop {
            while self.peek() == Some(",") {
                self.next += 1;
            }
            if self.peek() == Some("]") {
                self.next += 1;
                return Ok(Value::List(values));
            }
            values.push(self.value(depth + 1)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lists_and_blocks_within_blocks_are_read() {
        let text = "disk NAME with words {\n  Model = source a b.model,\n} # end\n";
        assert!(matches!(&parse(text, "f").unwrap()[0].items[0].value, Value::Word(_)));
        let text = "\n# a comment\ndisk NAME {\n A b (c.) = 1.5, # why\n L = [ -1, 2 , [ ] ],\n S = source x.seek,\n Z = zone {\n K = \
                    word }\n}\ninstantiate [ x ] as NAME\n";
        let blocks = parse(text, "f").unwrap();
        assert_eq!((blocks.len(), blocks[0].kind.as_str(), blocks[0].name.as_str()), (1, "disk", "NAME"));
        let items = &blocks[0].items;
        assert_eq!((items[0].key.as_str(), items[0].line, &items[0].value), ("A b (c.)", 4, &Value::Number(1.5)));
        let list = vec![Value::Number(-1.0), Value::Number(2.0), Value::List(Vec::new())];
        assert_eq!(items[1].value, Value::List(list));
        assert_eq!(items[2].value, Value::Source("x.seek".to_owned()));
        assert!(
            matches!(&items[3].value, Value::Block(block) if block.items[0].value == Value::Word("word".to_owned()))
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, expected) in [
            ("disk {\n A = 1,\n", 2, "a key, or '}'"),
            ("disk {\n A 1\n}", 3, "'='"),
            ("disk\n[ 1 ]", 2, "'{'"),
            ("disk {\n A = [ 1, 2\n", 2, "a value"),
            ("= 1", 1, "the kind"),
        ] {
            let error = parse(text, "drive.model").unwrap_err().to_string();
            assert!(error.starts_with(&format!("drive.model:{line}:")) && error.contains(expected), "{error}");
        }
        let deep = format!("disk {{ A = {}", "[".repeat(10_000));
        assert!(parse(&deep, "f").unwrap_err().to_string().contains("less nesting"));
    }
}
