//! `compare --files` takes the map that `place -o` writes: files of a real file system, and a
//! workload that uses them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder in the build folder. A system's folder for temporary files is often in memory, and so
/// not on a block device.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("place-{}", std::process::id()));
        std::fs::create_dir_all(path.join("files")).expect("the folder can be made");
        Self(path)
    }

    fn name(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bimetal(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bimetal")).args(arguments).output().expect("the program runs")
}

/// Returns the first extent of the file whose name ends in `name`, in sectors, if it lies beyond
/// the first 16 MiB.
fn place_of(map: &str, name: &str) -> Option<(u64, u64)> {
    let line = map.lines().find(|line| line.ends_with(name))?;
    let mut fields = line.split(',').map(|field| field.parse::<u64>());
    let (offset, length) = (fields.next()?.ok()?, fields.next()?.ok()?);
    (offset >= 16 << 20).then_some((offset / 512, length / 512))
}

/// Returns a workload that reads a block of a program and a block of a text in turn, ten requests
/// per second.
fn workload(program: (u64, u64), text: (u64, u64)) -> String {
    let mut csv = String::from("time_ns,device,op,lba,sectors,fua,response_ns\n");
    for number in 0..2000u64 {
        let (first, sectors) = if number.is_multiple_of(2) { program } else { text };
        let lba = first + number * 7919 % (sectors / 8) * 8;
        let _ = writeln!(csv, "{},0,read,{lba},8,0,", number * 100_000_000);
    }
    csv
}

#[test]
fn a_map_of_real_files_tells_combo_which_of_them_are_programs() {
    let folder = Folder::new();
    for name in ["libtool.so.1", "letter.txt"] {
        std::fs::write(folder.name(&format!("files/{name}")), vec![7; 1 << 20]).expect("there is room for a file");
    }
    let map = folder.name("map.csv");
    let placed = bimetal(&["place", &folder.name("files"), "-o", &map]);
    let error = String::from_utf8_lossy(&placed.stderr).into_owned();
    if error.contains("FIEMAP") {
        println!("skipped: {error}");
        return assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none());
    }
    assert!(placed.status.success(), "{error}");
    let lines = std::fs::read_to_string(&map).expect("place has written its map");
    let (Some(program), Some(text)) = (place_of(&lines, "libtool.so.1"), place_of(&lines, "letter.txt")) else {
        println!("skipped: the files lie elsewhere: {lines}");
        return assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none());
    };
    // The file system's own blocks lie at the beginning of the drive, and Combo moves only what the
    // map names. So the map gets free space there that can be exchanged.
    let files = lines.lines().filter(|line| line.ends_with("libtool.so.1") || line.ends_with("letter.txt"));
    let with_free: Vec<String> = lines.lines().take(1).chain(files).map(str::to_owned).collect();
    std::fs::write(&map, format!("{}\n0,{},<free>\n", with_free.join("\n"), 16 << 20))
        .expect("there is room for a map");
    let trace = folder.name("load.csv");
    std::fs::write(&trace, workload(program, text)).expect("there is room for a trace");
    let served_by_ssd = |more: &[&str]| {
        let mut arguments = vec!["compare", &trace, "--schemes", "combo", "--ssd-size", "16MiB", "--json"];
        arguments.extend(["--set", "period=10s", "--set", "idle=20ms", "--files", &map]);
        arguments.extend(more);
        let run = bimetal(&arguments);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let document: Value = serde_json::from_slice(&run.stdout).expect("--json prints JSON");
        document["runs"][0]["devices"]["ssd"]["reads"].as_u64().expect("the SSD counts reads")
    };
    let by_type = served_by_ssd(&["--set", "strategy=type"]);
    assert!((850..=1010).contains(&by_type), "{by_type} of the 1000 reads of the program, but for the first seconds");
    assert_eq!(served_by_ssd(&["--set", "strategy=none"]), 0, "both lie on the disk");
}

/// Regression: a map of another trace was taken silently by each command that takes a map.
#[test]
fn map_of_another_trace_is_refused_with_one_message() {
    let trace = |name: &str| format!("{}/../../traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-map");
    std::fs::create_dir_all(&folder).unwrap();
    let run = |line: &str, map: &str| {
        let (load, map) = (trace("program-start.bin.zst"), trace(&format!("{map}.files.csv.zst")));
        let line = line.replace("START", &load).replace("MAP", &map);
        let bimetal = env!("CARGO_BIN_EXE_bimetal");
        std::process::Command::new(bimetal).args(line.split(' ')).current_dir(&folder).output().unwrap()
    };
    for line in [
        "analyze START --files MAP",
        "convert START aged.bin.zst --files MAP --age 1",
        "simulate START --scheme combo --files MAP",
        "compare START --schemes combo --runs 1 --files MAP",
        "optimize START --files MAP --simulations 1",
    ] {
        let refused = run(line, "unpack");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{line}: {told}");
        assert!(told.contains("unpack.files.csv.zst: 53.") && told.contains("expected the map of"), "{line}: {told}");
        assert!(!folder.join("aged.bin.zst").exists(), "nothing is written");
    }
    let own = run("analyze START --files MAP", "program-start");
    assert!(own.status.success() && !String::from_utf8_lossy(&own.stderr).contains("map"), "{own:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
