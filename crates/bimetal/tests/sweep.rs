//! Sweeps: equal bytes whatever the threads, shards and interruptions; failing jobs; bad grids.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// 2 traces × (1 + 2 × 2 sizes) × 2 seeds.
const GRID: &str = "traces = ['one.bin.zst', 'two.bin.zst']\nschemes = ['hdd-only', 'smart-response', 'bcache']\n\
                    ssd-size = ['64MiB', '256MiB']\nseed = [1, 2]\nlimit = 400\n";
const GRID_JOBS: usize = 20;

/// 20 jobs over one trace, so that shards have equal numbers of jobs.
const ONE_TRACE: &str = "traces = 'one.bin.zst'\nschemes = ['hdd-only', 'smart-response', 'bcache']\n\
                         ssd-size = ['64MiB', '256MiB']\nseed = [1, 2, 3, 4]\nlimit = 500\n";

/// A folder with two traces and a grid; removed on drop.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("bimetal-sweep-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        for (from, to) in [("office-server", "one"), ("sqlite", "two")] {
            fs::copy(traces.join(format!("{from}.bin.zst")), folder.join(format!("{to}.bin.zst"))).expect("a trace");
        }
        let place = Self(folder);
        place.write("grid.toml", GRID);
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("room for a file");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(BIMETAL);
        command.current_dir(&self.0).args(line.split_whitespace());
        for name in ["SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "JOB_COMPLETION_INDEX", "BIMETAL_SHARDS"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program. Returns its exit status and all of its output.
    fn run(&self, line: &str) -> (Option<i32>, String) {
        let output = self.command(line).output().expect("the program runs");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), said.concat())
    }

    /// Runs the program, which must succeed.
    fn done(&self, line: &str) -> String {
        let (status, said) = self.run(line);
        assert_eq!(status, Some(0), "{line}: {said}");
        said
    }

    /// Returns the results of a folder: JSON lines, CSV, and the bytes of the Parquet file as text.
    fn results(&self, folder: &str) -> [String; 3] {
        let [lines, table] = ["results.jsonl", "results.csv"].map(|name| self.read(&format!("{folder}/{name}")));
        let parquet = fs::read(self.0.join(folder).join("results.parquet")).expect("a Parquet file");
        [lines, table, format!("{parquet:02x?}")]
    }

    /// Returns the lines that processes have written to the parts of a folder.
    fn lines_of_parts(&self, folder: &str) -> Vec<String> {
        let Ok(parts) = fs::read_dir(self.0.join(folder).join("parts")) else { return Vec::new() };
        let texts = parts.map(|part| fs::read_to_string(part.expect("a part").path()).expect("a part"));
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the JSON of the results of a folder.
fn parsed(lines: &str) -> Vec<serde_json::Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn results_have_equal_bytes_for_any_number_of_jobs() {
    let place = Place::new("jobs");
    let said = place.done("sweep grid.toml -o one --jobs 1");
    assert!(said.starts_with("20 jobs: 20 run now, 0 before; 20 done, 0 left out, 0 failed\n"), "{said}");
    place.done("sweep grid.toml -o two --jobs 64");
    let results = place.results("one");
    assert_eq!(results, place.results("two"));
    let [lines, table, _] = results;
    assert_eq!((lines.lines().count(), table.lines().count()), (GRID_JOBS, GRID_JOBS + 1));
    assert!(lines.lines().is_sorted());
    for result in parsed(&lines) {
        assert!(result["run"]["response_time_ms"]["all"]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{result}");
    }
    assert!(lines.lines().all(|line| line.starts_with("{\"schema\":\"bimetal/sweep/2\",\"key\":\"")), "{lines:.200}");
}

#[test]
fn job_has_the_figures_of_simulate() {
    let place = Place::new("simulate");
    place.done("sweep grid.toml -o out");
    let [lines, ..] = place.results("out");
    for (job, command) in [
        (
            r#""options":{"limit":"400","seed":"2","ssd-size":"268435456"}"#,
            "--scheme smart-response --ssd-size 256MiB --seed 2",
        ),
        (r#""options":{"limit":"400","seed":"1"}"#, "--scheme hdd-only --seed 1"),
    ] {
        let scheme = command.split_whitespace().nth(1).expect("a scheme");
        let is_it = |line: &&str| {
            line.contains(job) && line.contains("one.bin.zst") && line.contains(&format!("\"scheme\":\"{scheme}\""))
        };
        let line = lines.lines().find(is_it).expect("the job");
        let swept: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let document = place.done(&format!("simulate one.bin.zst --limit 400 {command} --json"));
        let start = document.find('{').expect("a document");
        let end = document.rfind('}').expect("a document");
        let mut document: serde_json::Value = serde_json::from_str(&document[start..=end]).expect("JSON");
        let run = document["runs"][0].as_object_mut().expect("a run");
        run.remove("run");
        run.remove("series");
        assert_eq!(swept["run"], document["runs"][0]);
        assert_eq!(swept["findings"], document["findings"]);
    }
}

#[test]
fn merged_shards_have_the_bytes_of_one_run() {
    let place = Place::new("shards");
    place.done("sweep grid.toml -o whole");
    for shard in 1..=3 {
        place.done(&format!("sweep grid.toml -o part{shard} --shard {shard}/3"));
        place.done(&format!("sweep grid.toml -o shared --shard {shard}/3"));
    }
    let counts = (1..=3).map(|shard| place.lines_of_parts(&format!("part{shard}")).len()).collect::<Vec<_>>();
    assert!(counts.iter().sum::<usize>() == GRID_JOBS && counts.iter().all(|count| *count > 0), "{counts:?}");
    place.done("sweep merge part3 part1 part2 -o merged");
    place.done("sweep merge shared -o shared");
    let whole = place.results("whole");
    assert_eq!(place.results("merged"), whole);
    assert_eq!(place.results("shared"), whole);
    let said = place.done("sweep grid.toml -o merged");
    assert!(said.starts_with("20 jobs: 0 run now, 20 before;"), "{said}");
    let status = place.done("sweep status merged");
    assert!(status.starts_with("grid.toml: 20 jobs: 20 done, 0 left out, 0 failed, 0 open"), "{status}");
    let status = place.done("sweep status merged --json");
    assert!(status.starts_with("{\n  \"schema\": \"bimetal/sweep-status/2\",\n"), "{status}");
}

#[test]
fn schedulers_name_the_shard_by_their_variables() {
    let place = Place::new("variables");
    place.write("grid.toml", ONE_TRACE);
    let run = |variables: &[(&str, &str)]| {
        let mut command = place.command("sweep grid.toml -o out --shard env");
        command.envs(variables.iter().copied());
        let output = command.output().expect("the program runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let slurm = [("SLURM_ARRAY_TASK_ID", "2"), ("SLURM_ARRAY_TASK_COUNT", "4"), ("SLURM_ARRAY_TASK_MIN", "0")];
    let said = run(&slurm);
    assert!(said.starts_with("shard 3/4: 5 jobs: 5 run"), "{said}");
    let said = run(&[("JOB_COMPLETION_INDEX", "0"), ("BIMETAL_SHARDS", "4")]);
    assert!(said.starts_with("shard 1/4: 5 jobs: 5 run"), "{said}");
    let status = place.done("sweep status out");
    assert_eq!(status, "grid.toml: 20 jobs: 10 done, 0 left out, 0 failed, 10 open; shards 1/4 3/4\n");
    assert!(run(&[]).contains("no scheduler has set its variables"));
}

/// A killed process may leave a torn line. The next process passes over this line, runs that job
/// again, and keeps all other results.
#[test]
fn killed_sweep_continues_with_equal_bytes() {
    let place = Place::new("killed");
    place.done("sweep grid.toml -o whole");
    let mut random = Pcg64Mcg::new(u128::from(std::process::id()) << 64 | 1);
    let mut kept_before = 0;
    let mut interrupted = 0;
    for _ in 0..8 {
        let mut command = place.command("sweep grid.toml -o out --jobs 2");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        sleep(Duration::from_millis(random.next_u64() % 400));
        child.kill().expect("SIGKILL");
        let status = child.wait().expect("the program ends");
        interrupted += usize::from(!status.success());
        // Nothing that was finished is lost.
        let kept = place.lines_of_parts("out").iter().filter(|line| line.ends_with('}')).count();
        assert!(kept >= kept_before, "{kept} of {kept_before}");
        kept_before = kept;
    }
    assert!(interrupted > 0, "no kill came before the end");
    // A torn line, whatever the moments of the kills were.
    let whole = place.lines_of_parts("whole")[0].clone();
    fs::create_dir_all(place.0.join("out/parts")).expect("a folder");
    place.write("out/parts/9999.jsonl", &whole[..whole.len() / 2]);
    place.done("sweep grid.toml -o out");
    assert_eq!(place.results("out"), place.results("whole"));
    let finished = place.lines_of_parts("out").into_iter().filter(|line| line.ends_with('}')).collect::<Vec<_>>();
    let distinct: BTreeSet<&String> = finished.iter().collect();
    assert_eq!((finished.len(), distinct.len()), (GRID_JOBS, GRID_JOBS), "each job was finished once");
}

#[test]
fn failing_job_is_recorded_and_stops_nothing() {
    let place = Place::new("failing");
    place.write(
        "bad.csv",
        "time_ns,device,op,lba,sectors,fua,response_ns\n0,0,write,0,8,0,\n1000,0,read,zero,8,0,\n2000,0,read,0,8,0,\n",
    );
    place.write("grid.toml", &GRID.replace("['one", "['bad.csv', 'one"));
    let (status, said) = place.run("sweep grid.toml -o out");
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.starts_with(
            "30 jobs: 30 run now, 0 before; 20 done, 0 left out, 10 failed\n10 jobs failed on bad.csv: the trace:3: lba 'zero'"
        ),
        "{said}"
    );
    let [lines, table, parquet] = place.results("out");
    let results = parsed(&lines);
    let failed: Vec<_> = results.iter().filter(|result| !result["error"].is_null()).collect();
    assert_eq!((results.len(), failed.len()), (30, 10));
    assert!(failed.iter().all(|result| result["run"].is_null() && result["traces"][0] == "bad.csv"));
    assert_eq!(table.lines().filter(|line| line.contains("the trace:3: lba 'zero'")).count(), 10);
    // A failed job is not run again unless asked, and the status still tells.
    let (status, said) = place.run("sweep grid.toml -o out");
    assert!(status == Some(3) && said.starts_with("30 jobs: 0 run now, 30 before;"), "{said}");
    let (status, said) = place.run("sweep grid.toml -o out --retry");
    assert!(status == Some(3) && said.starts_with("30 jobs: 10 run now, 20 before;"), "{said}");
    assert_eq!(place.results("out"), [lines, table, parquet]);
}

/// Regression: the trace was read with the speed of its first job: if a closed replay refused that
/// speed, all closed jobs failed.
#[test]
fn speed_of_one_job_fails_no_other_in_any_order() {
    let place = Place::new("speed");
    let results = ["2, 1", "1, 2"].map(|speeds| {
        place.write(
            "grid.toml",
            &format!(
                "traces = 'one.bin.zst'\nschemes = 'hdd-only'\nreplay = ['timed', 'closed:1']\n\
                 speedup = [{speeds}]\nlimit = 100\n"
            ),
        );
        let folder = format!("out{}", &speeds[..1]);
        let (status, said) = place.run(&format!("sweep grid.toml -o {folder} --jobs 1"));
        assert_eq!(status, Some(3), "{said}");
        assert!(said.starts_with("4 jobs: 4 run now, 0 before; 3 done, 0 left out, 1 failed\n"), "{said}");
        place.results(&folder)
    });
    assert_eq!(results[0], results[1]);
}

/// Regression: an edited grid kept the rows of a trace whose content had changed since.
#[test]
fn edited_grid_keeps_no_result_of_an_older_trace() {
    let place = Place::new("edited");
    let grid = |seeds: &str| {
        place.write(
            "grid.toml",
            &format!("traces = 'one.bin.zst'\nschemes = 'hdd-only'\nlimit = 100\nseed = [{seeds}]\n"),
        );
        place.done("sweep grid.toml -o out");
        place.results("out")[1].lines().count() - 1
    };
    assert_eq!(grid("1"), 1);
    assert_eq!(grid("1, 2"), 2);
    fs::copy(place.0.join("two.bin.zst"), place.0.join("one.bin.zst")).expect("a copy");
    assert_eq!(grid("1, 2, 3"), 3);
}

/// Regression: the rows of another grid left the results without a word.
#[test]
fn grid_whose_rows_leave_the_results_is_named() {
    let place = Place::new("named");
    for (grid, trace, seed) in [("a.toml", "one", 1), ("b.toml", "one", 2), ("c.toml", "two", 1)] {
        place.write(grid, &format!("traces = '{trace}.bin.zst'\nschemes = 'hdd-only'\nlimit = 100\nseed = {seed}\n"));
        assert!(!place.done(&format!("sweep {grid} -o out")).contains("left out of the results"));
    }
    fs::copy(place.0.join("two.bin.zst"), place.0.join("one.bin.zst")).expect("a copy");
    let said = place.done("sweep b.toml -o out");
    assert!(said.contains("the older results of a.toml are of another engine"), "{said}");
    assert!(said.contains("`bimetal sweep a.toml -o out` runs that grid again"), "{said}");
    assert!(!said.contains("results of b.toml") && !said.contains("c.toml"), "{said}");
}

/// Regression: a scheme made its tables before the drive was refused, and an allocation of 34 GB
/// ended the program.
#[test]
fn impossible_size_is_left_out_and_stops_nothing() {
    let place = Place::new("impossible");
    place.write(
        "grid.toml",
        "traces = 'one.bin.zst'\nschemes = 'smart-response'\nlimit = 100\nssd-size = ['64MiB', '10PiB']\n",
    );
    let said = place.done("sweep grid.toml -o out");
    assert!(
        said.starts_with("2 jobs: 2 run now, 0 before; 1 done, 1 left out, 0 failed\n1 job left out on "),
        "{said}"
    );
    let [lines, ..] = place.results("out");
    assert_eq!(lines.matches("smart-response: drive ssd: ").count(), 1, "{lines}");
}

/// In a grid, some schemes do not fit some drives: a scheme with flash as home cannot have a
/// small SSD. `compare` leaves such a scheme out, and so does a sweep.
#[test]
fn scheme_that_fits_no_drive_is_left_out_without_failure() {
    let place = Place::new("left-out");
    place.write("grid.toml", &GRID.replace("'bcache'", "'griffin'"));
    let said = place.done("sweep grid.toml -o out");
    assert!(said.starts_with("20 jobs: 20 run now, 0 before; 12 done, 8 left out, 0 failed\n"), "{said}");
    let [lines, ..] = place.results("out");
    assert_eq!(lines.matches("\"left_out\":\"griffin: the ssd drive of").count(), 8);
}

#[test]
fn equal_jobs_run_once_within_and_between_grids() {
    let place = Place::new("equal");
    fs::copy(place.0.join("one.bin.zst"), place.0.join("again.bin.zst")).expect("a copy");
    place.write(
        "a.toml",
        "traces = ['one.bin.zst', 'again.bin.zst']\nschemes = 'hdd-only'\nseed = [1, 2]\nlimit = 500\n",
    );
    place.write("b.toml", "traces = 'again.bin.zst'\nschemes = 'hdd-only'\nseed = [2, 3]\nlimit = 500\n");
    let said = place.done("sweep a.toml -o out");
    assert!(said.starts_with("2 jobs: 2 run"), "{said}");
    let said = place.done("sweep b.toml -o out");
    assert!(said.starts_with("2 jobs: 1 run now, 1 before;"), "{said}");
    let [lines, ..] = place.results("out");
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(lines.matches("\"traces\":[\"again.bin.zst\",\"one.bin.zst\"]").count(), 2);
    // Other content under the same name is another job.
    fs::copy(place.0.join("two.bin.zst"), place.0.join("again.bin.zst")).expect("a copy");
    let said = place.done("sweep b.toml -o out");
    assert!(said.starts_with("2 jobs: 2 run now, 0 before;"), "{said}");
}

#[test]
fn changed_profile_makes_other_jobs() {
    let place = Place::new("profile");
    let profile =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/intel-x25-m-80gb.toml"));
    let profile = profile.expect("a profile");
    place.write("own.toml", &profile);
    place.write("grid.toml", "traces = 'one.bin.zst'\nschemes = 'smart-response'\nssd = 'own.toml'\nlimit = 500\n");
    assert!(place.done("sweep grid.toml -o out").starts_with("1 job: 1 run"));
    assert!(place.done("sweep grid.toml -o out").starts_with("1 job: 0 run"));
    place.write("own.toml", &format!("# Changed.\n{profile}"));
    assert!(place.done("sweep grid.toml -o out").starts_with("1 job: 1 run"));
    assert_eq!(place.results("out")[0].lines().count(), 1, "the old result is of no plan");
}

#[test]
fn report_has_a_chart_for_each_place_and_loads_nothing() {
    let place = Place::new("report");
    place.done("sweep grid.toml -o out");
    place.done("sweep report out --rows traces --columns ssd-size -o page.html");
    let page = place.read("page.html");
    // Two traces by two sizes and the disk alone, which has no size of an SSD.
    assert_eq!(page.matches("<svg").count(), 2 * 3);
    assert_eq!(page.matches(">bcache</text>").count(), 4);
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("NaN"));
    let (status, said) = place.run("sweep report out --figure response_time_ms.all.p98");
    assert!(
        status == Some(1) && said.contains("--figure response_time_ms.all.p98: no result has such a number"),
        "{said}"
    );
    let (status, said) = place.run("sweep report out --rows size");
    assert!(status == Some(1) && said.contains("unknown axis 'size'"), "{said}");
}

#[test]
fn list_names_each_job_with_its_state_and_runs_nothing() {
    let place = Place::new("list");
    place.write("grid.toml", ONE_TRACE);
    let listed = place.done("sweep grid.toml -o out --list");
    assert_eq!(listed.lines().filter(|line| line.contains(" open ")).count(), GRID_JOBS, "{listed}");
    assert!(!place.0.join("out").exists());
    place.done("sweep grid.toml -o out --shard 1/2");
    let listed = place.done("sweep grid.toml -o out --list");
    let of = |state: &str| listed.lines().filter(|line| line.contains(state)).count();
    assert_eq!((of(" done "), of(" open ")), (10, 10), "{listed}");
    let command = listed.lines().next().and_then(|line| line.split(" bimetal ").nth(1)).expect("a command");
    assert!(place.done(command).contains("hdd-only"), "{command}");
}

#[test]
fn wrong_input_is_refused_before_anything_is_run() {
    let place = Place::new("wrong");
    fs::create_dir_all(place.0.join("other")).expect("a folder");
    place.write("other/thesis.tex", "");
    fs::create_dir_all(place.0.join("old")).expect("a folder");
    place.write("old/sweep.json", "{\"schema\":\"bimetal/sweep-folder/1\"}");
    let grid = |text: &str| place.write("wrong.toml", text);
    let base = "traces = 'one.bin.zst'\nschemes = 'hdd-only'\n";
    for (text, line, expected) in [
        ("", "sweep no.toml -o out", "no.toml: No such file"),
        ("", "sweep wrong.toml -o out", "wrong.toml: key 'traces' is missing"),
        (
            "trace = 'a'",
            "sweep wrong.toml -o out",
            "wrong.toml: key 'trace': is not a key of a grid: did you mean 'traces'?",
        ),
        (
            "traces = 'no.csv'\nschemes = 'hdd-only'",
            "sweep wrong.toml -o out",
            "wrong.toml: trace 'no.csv': No such file",
        ),
        (
            "traces = 'one.bin.zst'\nschemes = 'hdd'",
            "sweep wrong.toml -o out",
            "wrong.toml: key 'schemes': unknown scheme 'hdd'",
        ),
        (base, "sweep wrong.toml -o other", "other: has other files (thesis.tex) and is not a folder of a sweep"),
        (base, "sweep wrong.toml -o old", "has the form 'bimetal/sweep-folder/1': expected 'bimetal/sweep-folder/2'"),
        (base, "sweep wrong.toml -o out --shard 9/8", "expected I/N, shard I of N"),
        (base, "sweep wrong.toml -o out --jobs 0", "--jobs 0: expected at least 1"),
        (base, "sweep status other", "other: is not a folder of a sweep"),
        (base, "sweep merge other -o out", "other: is not a folder of a sweep"),
    ] {
        grid(text);
        let (status, said) = place.run(line);
        assert_eq!(status, Some(1), "{line}: {said}");
        assert!(said.starts_with("error: ") && said.contains(expected), "{line}: {said}");
        assert!(!place.0.join("out").exists(), "{line} made a folder");
    }
}
