//! `bimetal plan`: finds the cheapest SSD and scheme that keep the budgets.

mod others;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use bimetal_core::layout::Role;
use bimetal_core::units::Bytes;
use bimetal_measure::json::to_json;
use bimetal_plan::advice::{Confidence, Spread};
use bimetal_plan::answer::{CLOSEST, Described, STRIPE, purchases, verdict};
use bimetal_plan::break_even;
use bimetal_plan::budget::{Budget, Metric};
use bimetal_plan::catalogue::{Catalogue, Kind, SIZE_MIN};
use bimetal_plan::create;
use bimetal_plan::evaluate::{Figures, Outcome, is_too_small};
use bimetal_plan::growth::Growth;
use bimetal_plan::search::Tried;
use bimetal_plan::{PlanError, Planned, Progress as PlanProgress, Question, Stage, mixcp, plan};
use bimetal_sim::results::TraceSummary;
use bimetal_sim::setup::{Choices, DriveChoice, Size};
use clap::Args;

use self::others::Others;
use crate::cli::command_line;
use crate::commands::fleet;
use crate::error::Error;
use crate::in_memory::InMemory;
use crate::memory::take_large_blocks_from_the_system;
use crate::names::schemes_named;
use crate::options::simulation::{SimulationOptions, choices};
use crate::options::{TableForm, heading};
use crate::output::{OutputFile, Versioned, answer, note, note_small_capacity, note_unknown_capacity, print};
use crate::prices;
use crate::progress::Stages;
use crate::report;
use crate::self_check::self_check;
use crate::sheet::{Cell, Sheet};
use crate::workloads::Workloads;

/// Find the cheapest SSD and scheme that keep a latency, a lifetime and other budgets
///
/// Simulates every drive of the catalogue, in every size, under every scheme, until the cheapest
/// option that keeps all budgets is known. Without --catalog, six common models are considered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal plan monday.bin.zst --latency 'p99<5ms' --lifetime 5y\n  \
    bimetal plan monday.bin.zst --latency 'mean<1ms,read.p999<20ms' --max-cost 400 --catalog shop.toml\n  \
    bimetal plan monday.bin.zst --latency 'p99<5ms' --lifetime 5y --sure\n  \
    bimetal plan monday.bin.zst --latency 'write_savings>0.3' --schemes griffin --vary timeout=60s,300s,900s\n  \
    bimetal plan monday.bin.zst --latency 'p99<5ms,dwpd<1' --csv > options.csv\n  \
    bimetal plan --fleet results --max-cost 20000\n\n\
    A budget is a response time (mean, p50 to p9999, max; read. or write. in front), the drive writes a day of the SSD\n\
    (dwpd) or the dotted path of any figure of `bimetal simulate --json`, with < <= > or >= and a limit. The exit status is 3 if nothing keeps the budgets.")]
pub(crate) struct Arguments {
    /// The trace, or a workload described as for `generate --config` (.toml) [default: the embedded
    /// sample]; several traces are played together
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Share --max-cost among many volumes, so that the requests of all volumes together wait
    /// least: the volumes are the traces of the sweep in this folder, and their options its results
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "traces", "latency", "lifetime", "energy", "growth", "catalog", "schemes", "vary", "holdout", "sure", "model",
        "significant", "exhaustive", "report", "ssd", "hdd", "ssd_size", "hdd_size", "set", "csv", "markdown",
    ])]
    pub(crate) fleet: Option<PathBuf>,
    /// Limits of response times or of any other figure, with commas between, like 'p99<5ms'
    #[arg(long, help_heading = heading::BUDGETS, value_name = "BUDGET", value_delimiter = ',')]
    latency: Vec<String>,
    /// Least lifetime of the flash, like 5y
    #[arg(long, help_heading = heading::BUDGETS, value_name = "TIME", allow_hyphen_values = true)]
    lifetime: Option<String>,
    /// Highest price of all drives together, in US dollars, like 400
    #[arg(long, alias = "budget", help_heading = heading::BUDGETS, value_name = "USD", value_parser = dollars, allow_hyphen_values = true)]
    pub(crate) max_cost: Option<f64>,
    /// Highest energy of all drives over the trace (500J, 0.2kWh), or highest mean power (6W)
    #[arg(long, help_heading = heading::BUDGETS, value_name = "ENERGY")]
    energy: Option<String>,
    /// Yearly growth of footprint and rate of requests, like 20%/y: budgets must also hold at the
    /// end of --lifetime, or after five years
    #[arg(long, help_heading = heading::BUDGETS, value_name = "SHARE/y", allow_hyphen_values = true)]
    growth: Option<String>,
    /// Drives for sale: on-sale for all drives of `bimetal catalog show`, a class of them like
    /// consumer-ssd, a model like samsung-990-pro, or a TOML file with prices; several with commas
    /// between [default: the six models of `bimetal catalog show common`]
    #[arg(long, help_heading = heading::SEARCH, value_name = "on-sale|CLASS|MODEL|FILE.toml")]
    catalog: Option<String>,
    /// The schemes to consider, with commas between, or all
    #[arg(long, help_heading = heading::SEARCH, value_name = "a,b|all", default_value = "all")]
    schemes: String,
    /// Values of a parameter to try, like griffin.timeout=60s,900s [default: the first parameter of
    /// each scheme]
    #[arg(long, help_heading = heading::SEARCH, value_name = "KEY=V1,V2", value_parser = variation)]
    vary: Vec<(String, Vec<String>)>,
    /// Plan with the first half of the requests, and report the budgets that the second half keeps
    #[arg(long, help_heading = heading::SEARCH)]
    holdout: bool,
    /// Plan by the short end of each range: every window of the trace and the shortest lifetime
    /// keep the budgets
    #[arg(long, help_heading = heading::BUDGETS)]
    sure: bool,
    /// Method that predicts the figures of options; simulate: simulation; mixcp: regressions of
    /// MixedStore's MixCP, for mean response time and lifetime of an SSD
    #[arg(long, help_heading = heading::SEARCH, value_name = "simulate|mixcp", default_value = "simulate", value_parser = ["simulate", "mixcp"])]
    model: String,
    /// Drop insignificant predictors from the regressions of --model mixcp
    #[arg(long, help_heading = heading::SEARCH)]
    significant: bool,
    /// Simulate every option to its end, even if it cannot win
    #[arg(long, help_heading = heading::SEARCH)]
    exhaustive: bool,
    /// Also write the plan as a page that opens in any browser, offline
    #[arg(long, alias = "html", help_heading = heading::OUTPUT, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    options: SimulationOptions,
    #[command(flatten)]
    form: TableForm,
}

fn dollars(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ if text.contains(['<', '>']) => {
            Err("expected US dollars, 0 or more, like 400; limits of other figures are --latency 'p99<5ms'".to_owned())
        }
        _ => Err("expected US dollars, 0 or more, like 400".to_owned()),
    }
}

fn variation(text: &str) -> Result<(String, Vec<String>), String> {
    let expected = || "expected KEY=V1,V2, like griffin.timeout=60s,900s".to_owned();
    let (key, values) = text.split_once('=').ok_or_else(expected)?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if key.trim().is_empty() || values.iter().any(String::is_empty) {
        return Err(expected());
    }
    Ok((key.trim().to_owned(), values))
}

/// Makes the plan, writes its report, and returns the plan. The traces may be in `memory`.
///
/// # Errors
/// A trace, an option or the catalogue is wrong, or the report cannot be written.
pub(crate) fn planned(
    arguments: &Arguments,
    memory: &[InMemory],
    progress: &dyn PlanProgress,
) -> Result<Planned, Error> {
    // The file is created before the simulation: a path that cannot be written must fail at once,
    // not after a long run.
    let report = arguments.report.as_deref().map(OutputFile::create).transpose()?;
    let planned = searched(arguments, memory, progress)?;
    if let Some(mut file) = report {
        file.write_all(report::plan::html(&planned).as_bytes())?;
        file.finish()?;
    }
    Ok(planned)
}

fn searched(arguments: &Arguments, memory: &[InMemory], progress: &dyn PlanProgress) -> Result<Planned, Error> {
    check_model(arguments)?;
    let budgets = budgets_of(arguments)?;
    let lifetime = arguments.lifetime.as_deref();
    let growth =
        arguments.growth.as_deref().map(|text| Growth::parse(text, lifetime)).transpose().map_err(Error::new)?;
    let mut common = choices(&arguments.options)?;
    refuse_members(&common)?;
    let catalogue = catalogue_of(arguments, &common)?;
    let logs = logs_of(arguments, &common)?;
    forget_drives(&mut common);
    let schemes = schemes_named(&arguments.schemes)?;
    let (workload, replay) = Workloads::open(&arguments.traces, memory, &arguments.options)?;
    let (name, format) = (workload.name.clone(), workload.format.clone());
    common.merge = arguments.options.merges(workload.queue_events);
    common.capacity = arguments.options.least_capacity(&common, workload.capacity)?;
    if common.capacity.is_none() {
        note_unknown_capacity("options");
    }
    let question = Question {
        workload: &workload,
        catalogue,
        logs,
        schemes,
        budgets,
        common,
        growth,
        vary: arguments.vary.clone(),
        replay,
        warmup: arguments.options.warmup()?,
        exhaustive: arguments.exhaustive,
        holdout: arguments.holdout,
        significant: arguments.significant,
        sure: arguments.sure,
    };
    take_large_blocks_from_the_system();
    let answer = if arguments.model == "mixcp" { mixcp::plan } else { plan };
    let mut planned = answer(&question, progress).map_err(|error| match error {
        PlanError::NothingToDo { .. } => Error::new(format!("{name}: {error}")),
        error => error.into(),
    })?;
    let trace = &mut planned.answer.trace;
    let skipped_lines = workload.skipped_lines();
    if skipped_lines > 0 {
        note(format_args!("{name}: {skipped_lines} bad lines were skipped"));
    }
    *trace = TraceSummary { name, format, skipped_lines, ..trace.clone() };
    planned.answer.command = Some(command_line());
    Ok(planned)
}

/// Returns the document of a plan as `--json` prints it.
pub(crate) fn json(planned: &Planned) -> String {
    to_json(&Versioned::new("plan", &planned.answer))
}

/// Refuses options that do not go together.
fn check_model(arguments: &Arguments) -> Result<(), Error> {
    if arguments.options.price_per_gb {
        return Err(Error::new("--price-per-gb: a plan has the whole prices of its catalogue: leave it out"));
    }
    if arguments.sure && arguments.model == "mixcp" {
        return Err(Error::new(
            "--sure: --model mixcp has no windows of the trace: expected --model simulate beside it",
        ));
    }
    if arguments.significant && arguments.model != "mixcp" {
        return Err(Error::new("--significant: --model simulate has no regressions: expected --model mixcp beside it"));
    }
    Ok(())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    if let Some(folder) = &arguments.fleet {
        return fleet::show(folder, arguments.max_cost, arguments.form.json);
    }
    let planned = planned(&arguments, &[], &Stages::default())?;
    note_small_capacity(&planned.answer.trace, "options");
    if let Some(why) = no_flash_alone(&planned) {
        note(format_args!("no option without a disk can be built, for example: {why}"));
    }
    if planned.kept > 0 && planned.budgets.iter().all(|budget| budget.metric == Metric::Cost) {
        note(
            "no budget asks for more than a low price, so the cheapest option wins: --latency 'p99<5ms' asks for speed, and \
              --lifetime 5y for an SSD that lasts",
        );
    }
    // A finding tells how prices have changed since.
    if let Some(age) = prices::age_note(&planned.answer.catalogue.oldest_price, &[], prices::today()) {
        note(age);
    }
    if let Some(path) = &arguments.report {
        note(format_args!("the report is in {}", path.display()));
    }
    let form = &arguments.form;
    let table = form.of(|| sheet(&planned, form.csv));
    let printed = print(&table.unwrap_or_else(|| if form.json { json(&planned) } else { text(&planned) }));
    // The status says whether anything keeps the budgets.
    answer(printed, planned.kept == 0)
}

/// Returns the reason against an option without a disk, if there are such options and none of them
/// can be built: a buyer of a large volume should know that SSDs alone were not considered.
fn no_flash_alone(planned: &Planned) -> Option<&str> {
    let is_flash = |tried: &&Tried| tried.candidate.drives.iter().all(|(_, offer)| offer.kind == Kind::Ssd);
    let mut reasons = planned.tried.iter().filter(is_flash).map(|tried| match &tried.outcome {
        Some(Outcome::Impossible(why)) => Some(why.as_str()),
        _ => None,
    });
    let mut best = reasons.next()??;
    for reason in reasons {
        // The size of one drive is no reason where several drives are sold.
        best = if is_too_small(best) { reason? } else { reason.map(|_| best)? };
    }
    Some(best)
}

fn budgets_of(arguments: &Arguments) -> Result<Vec<Budget>, Error> {
    let mut budgets = arguments.latency.iter().map(|text| Budget::parse(text)).collect::<Result<Vec<_>, _>>()?;
    budgets.extend(arguments.lifetime.as_deref().map(Budget::lifetime).transpose()?);
    budgets.extend(arguments.max_cost.map(Budget::cost));
    budgets.extend(arguments.energy.as_deref().map(Budget::energy).transpose()?);
    Ok(budgets)
}

/// Returns the catalogue, narrowed to the drives that `--ssd`, `--hdd` and their sizes name.
fn catalogue_of(arguments: &Arguments, common: &Choices) -> Result<Catalogue, Error> {
    let mut catalogue = named_catalogue(arguments)?;
    for (kind, choice, flag) in [(Kind::Ssd, &common.ssd, "--ssd-size"), (Kind::Hdd, &common.hdd, "--hdd-size")] {
        if choice.profile.is_some() || choice.size.is_some() {
            catalogue.narrow(kind, choice.profile.as_deref(), bought(flag, choice.size)?)?;
        }
    }
    Ok(catalogue)
}

/// Returns the catalogue that `--catalog` names.
fn named_catalogue(arguments: &Arguments) -> Result<Catalogue, Error> {
    Ok(arguments.catalog.as_deref().map(Catalogue::named).transpose()?.unwrap_or_else(Catalogue::common))
}

/// Returns the size of a drive to buy.
fn bought(flag: &str, size: Option<Size>) -> Result<Option<Bytes>, Error> {
    match size {
        Some(Size::Bytes(bytes)) if bytes < SIZE_MIN => {
            Err(Error::new(format!("{flag} {bytes}: expected the size of a drive, at least {SIZE_MIN}")))
        }
        Some(Size::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Size::OfFootprint(_)) => Err(Error::new(format!(
            "{flag}: expected an absolute size like 32GiB, because drives are bought in such \
                                    sizes"
        ))),
        None => Ok(None),
    }
}

/// Refuses `--member` except for `log`: the plan itself chooses the SSD and the HDD.
fn refuse_members(common: &Choices) -> Result<(), Error> {
    match common.members.iter().find(|(id, _)| id != "log") {
        Some((id, choice)) if id == "ssd" || id == "hdd" => Err(Error::new(format!(
            "--member {id}=: a plan chooses the {}: restrict its choice with --{id} {}",
            id.to_uppercase(),
            choice.profile.as_deref().unwrap_or("MODEL")
        ))),
        Some((id, _)) => {
            Err(Error::new(format!("--member {id}=: a plan supports only log, a separate drive for a log")))
        }
        None => Ok(()),
    }
}

/// Returns the drives that `--member log=` allows: one size if a size is given, and otherwise every
/// size that is sold.
fn logs_of(arguments: &Arguments, common: &Choices) -> Result<Option<Catalogue>, Error> {
    let Some((_, DriveChoice { profile, size })) = common.members.iter().rfind(|(id, _)| id == "log") else {
        return Ok(None);
    };
    let mut catalogue = named_catalogue(arguments)?;
    let size = bought("--member log=", *size)?;
    let model = profile.as_deref().unwrap_or_default();
    let kind = catalogue.kind_of(model).map_err(|error| Error::new(format!("--member log=: {error}")))?;
    catalogue.narrow(kind, Some(model), size)?;
    catalogue.offers.retain(|offer| offer.kind == kind);
    Ok(Some(catalogue))
}

/// Removes all drives from the choices, because the plan chooses them.
fn forget_drives(common: &mut Choices) {
    (common.ssd, common.hdd) = (DriveChoice::default(), DriveChoice::default());
    common.members.clear();
}

/// A progress bar for each stage.
impl PlanProgress for Stages {
    fn read(&self, requests: u64) {
        self.show("requests", None, requests);
    }

    fn stepped(&self, stage: Stage, done: u64, of: u64) {
        let unit = match stage {
            Stage::Search => "options",
            Stage::Closest => "options that may be closest",
            Stage::Confidence => "checks of the winner",
            Stage::Training => "training workloads",
        };
        self.show(unit, Some(of), done);
    }
}

/// Returns a row for each option: for all options if `all` is set, and otherwise for the options
/// that the text shows.
fn sheet(planned: &Planned, all: bool) -> Sheet {
    let times = ["all.mean", "all.p99", "read.mean", "read.p99", "write.mean", "write.p99"];
    let drives = [Role::Ssd, Role::Log, Role::Hdd].map(Role::name).into_iter();
    let drives = drives.flat_map(|role| [role.to_owned(), format!("{role}_bytes"), format!("{role}_drives")]);
    let drives = drives.chain(["cost_usd", "usd_per_year"].map(str::to_owned));
    let names = times.map(|time| time.trim_start_matches("all.").replace('.', "_"));
    let times_named = names.each_ref().map(|name| format!("{name}_ms"));
    let last = ["life_years", "life_least_years", "life_most_years", "dwpd", "verdict", "why_not"].map(str::to_owned);
    let ends = names.iter().flat_map(|name| ["least", "most"].map(|end| format!("{name}_{end}_ms")));
    let first = ["scheme", "settings"].map(str::to_owned);
    let mut sheet = Sheet::new(first.into_iter().chain(drives).chain(times_named).chain(last).chain(ends));
    let shown: Vec<&Tried> = match all {
        true => planned.tried.iter().collect(),
        false => planned.tried.iter().take(planned.kept.min(1)).chain(Others::of(planned).all()).collect(),
    };
    for tried in shown {
        let Tried { candidate, reasons, .. } = tried;
        let figures = tried.figures();
        let settings = candidate.settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        let mut row: Vec<Cell> = vec![candidate.scheme.name.into(), settings.join(" ").into()];
        for role in [Role::Ssd, Role::Log, Role::Hdd] {
            let offer = candidate.drive(role);
            row.push(offer.map_or("", |offer| offer.model.as_str()).into());
            row.push(offer.map(|offer| offer.size.0).into());
            row.push(offer.map(|offer| offer.drives).into());
        }
        row.push(candidate.cost_usd.into());
        row.push(figures.and_then(|figures| figures.run().cost.usd_per_year).into());
        row.extend(times.map(|time| Cell::from(figures.and_then(|all| all.at(&format!("response_time_ms.{time}"))))));
        let (least, most) = figures.map_or((None, None), Figures::life_range);
        let dwpd = figures.filter(|all| all.lives.is_some()).and_then(|all| all.at("devices.ssd.flash.dwpd"));
        row.extend([figures.and_then(Figures::life_years), least, most, dwpd].map(Cell::from));
        let keeps = tried.keeps_all() && !planned.answer.budgets.is_empty();
        let verdict = verdict(tried).or_else(|| keeps.then(|| planned.keeps(tried)));
        row.push(verdict.unwrap_or_default().into());
        row.push(reasons.join("; ").into());
        row.extend(times.iter().flat_map(|time| range_of(planned, tried, time)).map(Cell::from));
        sheet.push(row);
    }
    sheet
}

/// Returns both ends of the range of a response time over the parts of the trace. Only response
/// times with a budget have a range, and only of options that were tested.
fn range_of(planned: &Planned, tried: &Tried, time: &str) -> [Option<f64>; 2] {
    let metric = Metric::Path(format!("response_time_ms.{time}"));
    let confidence = tried.figures().and_then(|figures| figures.confidence.as_ref());
    let budget = planned.budgets.iter().find(|budget| budget.metric == metric);
    let spread = confidence.zip(budget).and_then(|(confidence, budget)| confidence.of(budget));
    spread.map(Spread::range).map_or([None, None], |(least, most)| [least, most])
}

/// Returns the answer as text for people.
fn text(planned: &Planned) -> String {
    let Planned { answer, tried, kept, .. } = planned;
    let mut text = format!("{}\n", self_check(&answer.trace));
    answer.findings.iter().for_each(|finding| text += &format!("{}\n", finding.line()));
    let budgets = if answer.budgets.is_empty() { "none".to_owned() } else { answer.budgets.join(", ") };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "budgets: {budgets}; prices: {}\n", prices::source(&answer.catalogue));
    match tried.first().filter(|_| *kept > 0) {
        Some(best) => {
            let _ = writeln!(text, "{}", planned.headline().unwrap_or_default());
            let _ = writeln!(text, "buy: {}", purchases(&best.candidate));
            let _ = writeln!(text, "{}: {}", best.candidate.scheme.name, best.candidate.scheme.summary);
            let owned = answer.best.as_ref().and_then(Described::ownership);
            owned.into_iter().chain(planned.alternatives()).for_each(|line| text += &format!("{line}\n"));
            let is_hopeless = answer.confidence.as_ref().is_some_and(Confidence::lacks_times);
            if best.is_proven() == Some(false) && !is_hopeless {
                text += "to keep the budgets at the worst end of each range, too, plan with --sure\n";
            }
            let _ = writeln!(text, "{}", planned.after_growth().map(|grown| grown + "\n").unwrap_or_default());
            let built = answer.best.as_ref().map(|best| match &best.create_command {
                Some(line) => format!("{} {line}", create::introduction(&tried[0].candidate)),
                None => create::instead(&best.scheme),
            });
            let _ = writeln!(text, "{}", built.unwrap_or_default());
            if best.candidate.has_several_drives() {
                text += &format!("{STRIPE}\n");
            }
        }
        None => {
            let _ = match answer.closest.is_empty() {
                true => {
                    writeln!(text, "no option keeps the budgets, and for no option its distance from them is known")
                }
                false => writeln!(text, "no option keeps the budgets. {CLOSEST}:"),
            };
            for closest in &answer.closest {
                let _ = writeln!(text, "  {}: {}", closest.option.name, closest.advice());
            }
            if let Some(left_out) = planned.closest_left_out() {
                let _ = writeln!(text, "  {left_out}");
            }
        }
    }
    if let Some(not_run) = planned.not_run() {
        let _ = writeln!(text, "{not_run}");
    }
    if let Some(left_out) = planned.left_out_for_their_map() {
        let _ = writeln!(text, "{left_out}");
    }
    text += &advice(planned);
    let others = Others::of(planned);
    text += &others.text(planned);
    let run = &answer.run;
    let more = tried.len() - usize::from(*kept > 0) - others.all().count();
    if more > 0 {
        let _ = writeln!(text, "  and {more} more: --json and --report list all options");
    }
    let _ = writeln!(text, "\n{} runs for {} options in {:.1} s", run.simulations, run.options, run.wall_s);
    text
}

/// Returns, as text for people, the confidence of the answer and the changes of assumptions that
/// would change the answer.
fn advice(planned: &Planned) -> String {
    let answer = &planned.answer;
    let mut text = String::new();
    for command in answer.best.iter().flat_map(|best| &best.kernel_commands) {
        let _ = writeln!(text, "similar in Linux, with other figures: {command}");
    }
    // Without budgets there may be nothing to say.
    let says = |confidence: &&Confidence| !(confidence.budgets.is_empty() && confidence.notes.is_empty());
    if let Some(confidence) = answer.confidence.as_ref().filter(says) {
        text.push_str("\nhow sure:\n");
        for spread in &confidence.budgets {
            let verdict = spread.verdict();
            let show = |value| planned.show(&spread.budget, value);
            let windows = spread.error.map(|error| {
                let (least, most) = (show(spread.least), show(spread.most));
                format!(" (time windows {least} to {most}, error of their mean ± {})", show(Some(error)))
            });
            let of_today = planned.after_growth().filter(|_| spread.kept_in_windows.is_none());
            let of_today = of_today.map_or("", |_| " (both without growth)");
            let (first, second) = (show(spread.first_half), show(spread.second_half) + of_today);
            let (budget, predicted) = (&spread.budget, show(spread.predicted));
            let windows = windows.unwrap_or_default();
            let _ =
                writeln!(text, "  {budget}: {predicted}{windows}; first half {first}, second half {second}: {verdict}");
        }
        confidence.notes.iter().for_each(|note| {
            let _ = writeln!(text, "  {note}");
        });
    }
    let prices: Vec<String> = answer.best.iter().flat_map(|best| break_even::sentences(&best.break_even)).collect();
    if !prices.is_empty() {
        let _ = writeln!(text, "\npurchase prices that would change it, each alone:\n  {}", prices.join("\n  "));
    }
    if !answer.sensitivity.is_empty() {
        text.push_str("\nwhat would change it, over the whole trace:\n");
    }
    for change in &answer.sensitivity {
        let figures = change.figures.iter().map(|(name, value)| format!("{name} {}", planned.show(name, *value)));
        let figures: Vec<String> = figures.chain(change.life()).collect();
        let figures = Some(figures).filter(|figures| !figures.is_empty());
        // Without budgets there is nothing to keep.
        let verdict = Some(change.verdict()).filter(|_| !(answer.budgets.is_empty() && change.keeps_budgets));
        let says = figures.iter().map(|figures| figures.join(", "));
        let _ = writeln!(text, "  {}: {}", change.change, says.chain(verdict).collect::<Vec<_>>().join("; "));
    }
    text
}
