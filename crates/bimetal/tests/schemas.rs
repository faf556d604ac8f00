//! Every JSON document that a command prints has a JSON Schema in `schemas/`, and is valid by this
//! schema.
//!
//! The schemas are made from the documents that the commands below print. With
//! `BIMETAL_SCHEMAS=overwrite` the schemas are written anew; look at the difference: a key that
//! goes, or changes its type, is a new version of its document.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// Objects whose keys are data: names of settings, of reasons, of files.
const MAPS: &[&str] = &[
    "assumed",
    "blocks_by_erases",
    "bypass",
    "coefficients",
    "die_busy_s_by_cause",
    "energy_j_by_operation",
    "erases_by_cause",
    "failures",
    "figures",
    "kept_in_windows",
    "pages_programmed_by_cause",
    "predicted",
    "predicted_range",
    "request_size_sectors",
    "settings",
    "source_of",
    "source_texts",
    "verdicts",
    "wait_s_by_cause",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

fn trace(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name).display().to_string()
}

/// Folder of a test, with drives and with the program's own state.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        // A system's folder for temporary files is often in memory, and its files are on no device.
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schemas-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("files")).expect("a folder for the test");
        for (name, mib) in [("ssd.img", 64), ("hdd.img", 256)] {
            let file = std::fs::File::create(directory.join(name));
            file.and_then(|file| file.set_len(mib << 20)).expect("a file for a drive");
        }
        let map = std::fs::read(trace("program-start.files.csv.zst")).expect("the map of files");
        let map = zstd::decode_all(&map[..]).expect("it is compressed");
        std::fs::write(directory.join("map.csv"), map).expect("the map is written");
        for name in ["libtool.so.1", "letter.txt"] {
            std::fs::write(directory.join("files").join(name), vec![7; 1 << 20]).expect("a file to place");
        }
        let grid = format!(
            "traces = '{}'\nschemes = ['hdd-only', 'bcache', 'griffin']\nssd-size = ['4MiB', '1GiB']\nlimit = 500\n",
            trace("sqlite.bin.zst")
        );
        std::fs::write(directory.join("grid.toml"), grid).expect("a grid");
        // Short enough without --limit.
        let reads = (0..200).map(|at| format!("{},0,read,{},8,0,\n", at * 1_000_000, at * 800));
        let small = format!("time_ns,device,op,lba,sectors,fua,response_ns\n{}", reads.collect::<String>());
        std::fs::write(directory.join("small.csv"), small).expect("a trace");
        std::fs::write(directory.join("drives.csv"), "model,kind,size,tbw_tb\nOwn 1,ssd,1TB,600\n").expect("a table");
        Self(directory)
    }

    fn command(&self, line: &str) -> Command {
        let line = line.replace("SQLITE", &trace("sqlite.bin.zst")).replace("START", &trace("program-start.bin.zst"));
        let mut command = Command::new(BIMETAL);
        command.args(line.split_whitespace()).current_dir(&self.0);
        command.env("XDG_STATE_HOME", self.0.join("state")).env("XDG_RUNTIME_DIR", self.0.join("run"));
        command
    }

    /// Returns the lines of the results of a sweep.
    fn sweep(&self) -> Vec<Value> {
        let lines = std::fs::read_to_string(self.0.join("results/results.jsonl")).expect("results");
        lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Returns the documents of `place`, without and with a trace that uses the files; no documents
    /// if the file system does not report the places of files.
    fn place(&self) -> Vec<Value> {
        let placed = self.command("place files -o places.csv").output().expect("the program runs");
        let told = String::from_utf8_lossy(&placed.stderr).into_owned();
        if told.contains("FIEMAP") {
            println!("skipped: {told}");
            assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none());
            return Vec::new();
        }
        assert!(placed.status.success(), "{told}");
        let map = std::fs::read_to_string(self.0.join("places.csv")).expect("a map");
        let file = map.lines().find(|line| line.ends_with("letter.txt")).expect("the file is in the map");
        let offset: u64 = file.split(',').next().and_then(|offset| offset.parse().ok()).expect("an offset");
        let mut load = String::from("time_ns,device,op,lba,sectors,fua,response_ns\n");
        (0..200).for_each(|at| load += &format!("{},0,read,{},8,0,\n", at * 1_000_000, offset / 512));
        std::fs::write(self.0.join("load.csv"), load).expect("a trace");
        ["place files", "place files --strategy frequency --trace load.csv --ssd-size 64MiB"]
            .map(|line| self.document(line))
            .into()
    }

    /// Returns the documents of commands on a volume while it is served.
    fn served(&self, volume: &str, lines: &[(&'static str, &str)]) -> Vec<(&'static str, Value)> {
        let mut serve = self.command(&format!("serve {volume} --json"));
        let mut server = Server(serve.stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line of the server");
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let documents = lines.iter().map(|(name, line)| (*name, self.document(line)));
        iter::once(("serve", ready)).chain(documents).collect()
    }

    /// Returns the document that a command prints. The exit status of the command may be 3: the
    /// answer is "no".
    fn document(&self, line: &str) -> Value {
        let mut command = self.command(line);
        command.arg("--json");
        let output = command.output().expect("the program runs");
        let told = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}\n{told}"))
    }
}

/// A server. It is ended with the test, also where the test fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Commands by their documents, as many of each as show its optional keys.
const COMMANDS: &[(&str, &str)] = &[
    ("analyze", "analyze SQLITE"),
    ("catalog", "catalog show"),
    ("catalog-import", "catalog import drives.csv -o drives.toml"),
    ("compare", "compare SQLITE --limit 1000 --runs 2 --report report.html"),
    ("compare", "compare SQLITE --limit 2000 --runs 1 --ssd-size 1MiB"),
    ("compare", "compare SQLITE --limit 2000 --runs 1 --replay closed"),
    ("compare", "compare SQLITE --limit 2000 --runs 1 --schemes bcache,griffin --ssd aws-gp3 --hdd aws-st1"),
    ("compare", "compare small.csv --runs 1 --schemes hdd-only"),
    ("compare-traces", "compare small.csv small.csv --runs 1 --schemes hdd-only"),
    ("compare-traces", "compare SQLITE START --limit 2000 --runs 1 --schemes hdd-only,bcache"),
    ("fault", "fault --scheme griffin --seeds 3"),
    ("formats", "formats"),
    ("mrc", "mrc SQLITE --sizes 1MiB,2MiB"),
    ("optimize", "optimize START --files map.csv --simulations 5"),
    ("plan", "plan SQLITE --limit 3000 --latency p99<20ms"),
    ("plan", "plan SQLITE --limit 3000 --latency p99<20ms --capacity 8TB"),
    // A disk keeps this budget with think times only.
    ("plan", "plan SQLITE --limit 3000 --latency p99<8ms --capacity 8TB --catalog wd-blue-sn5000,wd-red-plus"),
    ("plan", "plan SQLITE --limit 3000 --max-cost 10"),
    ("profiles", "profiles"),
    ("reproduce", "reproduce combo"),
    ("reproduce-experiment", "reproduce combo-hdtune"),
    ("reproduce-experiment", "reproduce wear-leveling"),
    ("schemes", "schemes"),
    ("simulate", "simulate small.csv --scheme griffin"),
    ("simulate", "simulate SQLITE --limit 3000 --scheme griffin"),
    ("simulate", "simulate SQLITE --limit 3000 --scheme combo"),
    ("extract", "extract combo-ssd1-32gb -o flash.toml"),
    ("extract", "extract seagate-barracuda-7200.12-1tb -o disk.toml"),
    ("validate", "validate SQLITE --limit 1000 --ssd intel-x25-m-80gb"),
    ("validate", "validate SQLITE --limit 1000 --hdd seagate-barracuda-7200.12-1tb --fit"),
    ("create", "create mail --scheme smart-response --ssd ssd.img --hdd hdd.img --set ssd.rated_writes=1dwpd/5y"),
    ("status", "status mail"),
    ("check", "check mail"),
    ("check", "check mail --scrub"),
    ("drain", "drain mail"),
    (
        "create",
        "create copy --scheme bcache --ssd emulate:intel-x25-m-80gb:copy-ssd.img --ssd-size 64MiB --hdd \
         emulate:seagate-barracuda-7200.12-1tb:copy-hdd.img --hdd-size 64MiB",
    ),
    ("generate", "generate --requests 200 --footprint 8MiB -o load.bin.zst"),
    ("convert", "convert load.bin.zst load.csv"),
    ("sweep-run", "sweep grid.toml -o results"),
    ("sweep-merge", "sweep merge results -o merged"),
    ("sweep-status", "sweep status results"),
    ("fleet", "plan --fleet results --max-cost 1000"),
];

/// Commands on a volume that is served.
const SERVED: &[(&str, &str)] = &[
    ("status", "status mail"),
    ("trace", "trace start mail mail.bin.zst"),
    ("set", "set mail move_rate=10MiB"),
    ("replay", "replay load.bin.zst mail --overwrite"),
    ("trace", "trace stop mail"),
    ("detach", "detach mail"),
    ("attach", "attach mail ssd.img"),
];

/// Commands on a volume of emulated drives that is served.
const EMULATED: &[(&str, &str)] = &[("replay", "replay load.bin.zst copy --overwrite --against-simulator")];

/// Commands after the volume was served.
const STOPPED: &[(&str, &str)] = &[
    ("upgrade", "upgrade mail"),
    ("acknowledge", "acknowledge mail"),
    ("rescue", "rescue mail --dry-run"),
    ("rescue", "rescue mail"),
    ("resize", "resize mail"),
];

/// Returns the documents of every command.
fn documents() -> BTreeMap<&'static str, Vec<Value>> {
    let place = Place::new();
    let mut found: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
    for (name, line) in COMMANDS {
        found.entry(name).or_default().push(place.document(line));
    }
    found.insert("sweep", place.sweep());
    let stopped = STOPPED.iter().map(|(name, line)| (*name, place.document(line)));
    let served = [place.served("mail", SERVED), place.served("copy", EMULATED)].concat();
    for (name, document) in served.into_iter().chain(stopped) {
        found.entry(name).or_default().push(document);
    }
    let placed = place.place();
    if !placed.is_empty() {
        found.insert("place", placed);
    }
    std::fs::remove_dir_all(&place.0).expect("the folder is removed");
    found
}

/// Returns the name of a value's type. Whole numbers are numbers.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the schema of values that stand at one place of a document, under `key`. Any number may
/// be null in another run, and a value that is always null may be anything.
fn schema_of(values: &[&Value], key: &str) -> Value {
    let mut types: BTreeSet<&str> = values.iter().map(|value| type_of(value)).collect();
    if types.contains("number") {
        types.insert("null");
    }
    let mut schema = Map::new();
    if types != BTreeSet::from(["null"]) {
        schema.insert("type".to_owned(), if types.len() == 1 { json!(types.first()) } else { json!(types) });
    }
    let objects: Vec<&Map<String, Value>> = values.iter().filter_map(|value| value.as_object()).collect();
    let elements: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
    if !elements.is_empty() {
        schema.insert("items".to_owned(), schema_of(&elements, ""));
    }
    if MAPS.contains(&key) {
        let all: Vec<&Value> = objects.iter().flat_map(|object| object.values()).collect();
        if !all.is_empty() {
            schema.insert("additionalProperties".to_owned(), schema_of(&all, ""));
        }
    } else if !objects.is_empty() {
        let names: BTreeSet<&String> = objects.iter().flat_map(|object| object.keys()).collect();
        let of_name = |name: &String| {
            let present: Vec<&Value> = objects.iter().filter_map(|object| object.get(name)).collect();
            schema_of(&present, name)
        };
        let is_always = |name: &&&String| objects.iter().all(|object| object.contains_key(**name));
        schema.insert("required".to_owned(), json!(names.iter().filter(is_always).collect::<Vec<_>>()));
        let properties = names.iter().map(|name| ((*name).clone(), of_name(name)));
        schema.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    Value::Object(schema)
}

/// Collects the places at which `value` is not valid by `schema`.
fn check(value: &Value, schema: &Value, at: &str, wrong: &mut Vec<String>) {
    let is_type = |wanted: &Value| wanted.as_str() == Some(type_of(value));
    let types = &schema["type"];
    if !types.is_null() && !is_type(types) && !types.as_array().is_some_and(|types| types.iter().any(is_type)) {
        wrong.push(format!("{at}: {}, expected {types}", type_of(value)));
        return;
    }
    if let Some(constant) = schema.get("const").filter(|constant| *constant != value) {
        wrong.push(format!("{at}: {value}, expected {constant}"));
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                wrong.push(format!("{at}: without {name}"));
            }
        }
        for (name, inner) in object {
            match schema["properties"].get(name).or(schema.get("additionalProperties")) {
                Some(known) => check(inner, known, &format!("{at}.{name}"), wrong),
                None => wrong.push(format!("{at}.{name}: is in no schema")),
            }
        }
    }
    if let Some(items) = schema.get("items") {
        for element in value.as_array().into_iter().flatten() {
            check(element, items, &format!("{at}[]"), wrong);
        }
    } else if value.as_array().is_some_and(|elements| !elements.is_empty()) {
        wrong.push(format!("{at}[]: is in no schema"));
    }
}

fn schema_of_document(name: &str, documents: &[Value]) -> Value {
    let mut schema = schema_of(&documents.iter().collect::<Vec<_>>(), name);
    let id = documents[0]["schema"].clone();
    schema["properties"]["schema"]["const"] = id;
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(format!("bimetal {name} --json"));
    schema
}

#[test]
fn every_document_keeps_to_its_schema() {
    let mut wrong = Vec::new();
    for (name, documents) in documents() {
        let path = folder().join(format!("{name}.json"));
        if std::env::var("BIMETAL_SCHEMAS").is_ok_and(|mode| mode == "overwrite") {
            let text = serde_json::to_string_pretty(&schema_of_document(name, &documents)).expect("it is JSON") + "\n";
            std::fs::create_dir_all(folder())
                .and_then(|()| std::fs::write(&path, text))
                .expect("the schema is written");
            // The program has the schemas of its last build.
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let schema: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for document in &documents {
            check(document, &schema, name, &mut wrong);
        }
        let printed = Command::new(BIMETAL).args(["schema", name]).output().expect("the program runs");
        assert_eq!(String::from_utf8_lossy(&printed.stdout), text, "bimetal schema {name}");
    }
    assert!(wrong.is_empty(), "{}\nBIMETAL_SCHEMAS=overwrite writes the schemas anew", wrong.join("\n"));
}

#[test]
fn schema_refuses_a_wrong_type_a_missing_and_an_unknown_key() {
    let schema = schema_of(&[&json!({"a": 1, "b": [null, "x"]}), &json!({"a": 2.5})], "");
    let refused = |value: Value| {
        let mut wrong = Vec::new();
        check(&value, &schema, "it", &mut wrong);
        wrong.join("; ")
    };
    assert_eq!(refused(json!({"a": 7, "b": []})), "");
    assert_eq!(refused(json!({"a": 7, "b": ["x", 3]})), "it.b[]: number, expected [\"null\",\"string\"]");
    assert_eq!(refused(json!({"b": []})), "it: without a");
    assert_eq!(refused(json!({"a": 1, "c": 1})), "it.c: is in no schema");
    assert_eq!(refused(json!({"a": "1"})), "it.a: string, expected [\"null\",\"number\"]");
}
