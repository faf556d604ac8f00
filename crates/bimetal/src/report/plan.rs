//! The page of `bimetal plan`: the answer, the front of price and figures, the confidence of the
//! answer, and the reason for each rejected option.

use std::fmt::Write as _;

use bimetal_core::layout::Role;
use bimetal_measure::text::{decimal, price, short, short_years};
use bimetal_plan::Planned;
use bimetal_plan::answer::{Answer, CLOSEST, STRIPE, name, purchases, sentence};
use bimetal_plan::break_even;
use bimetal_plan::budget::Budget;
use bimetal_plan::create;
use bimetal_plan::evaluate::Figures;
use bimetal_plan::search::Tried;
use serde_json::{Value, json};

use super::escape::{html as escaped, json_in_script};
use super::sections::{by_severity, capital, findings};
use super::{CHARTS, ERRORS, STYLE, palette};
use crate::prices;

const PAGE: &str = include_str!("assets/plan.js");

/// Largest number of rejected options in the table.
const ROWS_MAX: usize = 400;

/// Returns the report on `planned` as a self-contained page.
pub(crate) fn html(planned: &Planned) -> String {
    let answer = &planned.answer;
    let title = format!("Plan for {} – Bimetal", answer.trace.name);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src \
         'nonce-bimetal'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <script nonce=\"bimetal\">{ERRORS}</script>\n</head>\n<body>\n\
         <header>\n<p class=\"kicker\">Bimetal {version} · plan</p>\n\
         <h1>What to buy for <span class=\"file\">{name}</span></h1>\n<p class=\"workload\">{budgets}</p>\n</header>\n<main>\n\
         {verdict}\
         <section aria-labelledby=\"charts\"><h2 id=\"charts\">What more money buys</h2>\n\
         <noscript><p>The charts need JavaScript; everything else on this page does not.</p></noscript>\n\
         <div id=\"plots\"></div>\n</section>\n{sure}{front}{rejected}{command}\
         </main>\n<footer><p>Made by Bimetal {version}. Prices are those of {catalogue}.</p></footer>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script nonce=\"bimetal\">\n{CHARTS}</script>\n<script nonce=\"bimetal\">\n{PAGE}</script>\n</body>\n</html>\n",
        title = escaped(&title),
        version = escaped(&answer.bimetal),
        name = escaped(&answer.trace.name),
        budgets = budgets(answer),
        verdict = verdict(planned),
        sure = sure(planned),
        front = front(planned),
        rejected = rejected(answer),
        command = command(answer),
        catalogue = escaped(&prices::source(&answer.catalogue)),
        data = json_in_script(&json!({ "figures": figures(planned) }).to_string()),
    )
}

fn budgets(answer: &Answer) -> String {
    let budgets = if answer.budgets.is_empty() { "none".to_owned() } else { answer.budgets.join(", ") };
    escaped(&format!("Budgets: {budgets}. {} options, {} runs.", answer.run.options, answer.run.simulations))
}

/// Returns the answer in a sentence, the way to build it, and the cautions.
fn verdict(planned: &Planned) -> String {
    let Planned { answer, tried, .. } = planned;
    let mut text = "<section aria-label=\"Answer\">".to_owned();
    // Writing to a string cannot fail.
    let _ = match (&answer.best, tried.first()) {
        (Some(best), Some(first)) => {
            let sentence = planned.headline().unwrap_or_default();
            let built = match &best.create_command {
                Some(line) => block(create::introduction(&first.candidate), std::slice::from_ref(line)),
                None => format!("<p>{}.</p>\n", escaped(&capital(&create::instead(&best.scheme)))),
            };
            let similar = "the similar function in Linux, on the same drives in place of Bimetal; its figures differ:";
            let mut about = vec![format!("buy: {}", purchases(&first.candidate))];
            about.push(format!("{}: {}", first.candidate.scheme.name, first.candidate.scheme.summary));
            about.extend(best.ownership());
            about.extend(planned.alternatives());
            if first.candidate.has_several_drives() {
                about.push(STRIPE.to_owned());
            }
            let prices = break_even::sentences(&best.break_even).into_iter();
            about.extend(prices.map(|sentence| format!("each price alone: {sentence}")));
            let about: String = about.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
            writeln!(
                text,
                "<p class=\"summary\">{}</p>\n<ul class=\"choices\">\n{about}</ul>\n{built}{}",
                escaped(&sentence),
                block(similar, &best.kernel_commands)
            )
        }
        _ => {
            text.push_str("<p class=\"summary\">No option keeps the budgets.</p>\n");
            let closest = if answer.closest.is_empty() { "Of none it can be told how near it comes" } else { CLOSEST };
            let _ = write!(text, "<p>{closest}:</p>\n<ul>");
            for closest in &answer.closest {
                let advice = escaped(&closest.advice());
                let _ = write!(text, "<li>{}: {advice}</li>", escaped(&closest.option.name));
            }
            let left_out = planned.closest_left_out().map_or_else(String::new, |line| format!("<p>{line}.</p>"));
            writeln!(text, "</ul>{}", left_out.replace('`', ""))
        }
    };
    for line in planned.after_growth().into_iter().chain(planned.not_run()).chain(planned.left_out_for_their_map()) {
        let _ = writeln!(text, "<p>{}</p>", escaped(&line.replace('`', "")));
    }
    let (warnings, notes) = by_severity(&answer.findings);
    let unsure = answer.confidence.iter().flat_map(|confidence| &confidence.notes).map(|note| escaped(note));
    let lines: Vec<String> = warnings.into_iter().chain(unsure).chain(notes).collect();
    text + &findings(&lines) + "</section>\n"
}

/// Returns commands under their introduction; an empty text without commands.
fn block(introduction: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    let introduction = escaped(&capital(introduction));
    format!("<p>{introduction}</p>\n<div class=\"command\"><pre tabindex=\"0\">{}</pre></div>\n", lines.join("\n"))
}

/// Returns the confidence of the answer, and the changes of assumptions that would change the
/// answer.
fn sure(planned: &Planned) -> String {
    let answer = &planned.answer;
    let Some(confidence) = &answer.confidence else { return String::new() };
    let mut text = String::new();
    if !confidence.budgets.is_empty() {
        text.push_str(
            "<section aria-labelledby=\"sure\"><h2 id=\"sure\">How sure</h2>\n<div class=\"scroll\"><table><thead><tr><th>budget</th><th>whole trace</th><th>error</th><th>least window</th>\
             <th>most window</th><th>first half</th><th>second half</th><th>verdict</th></tr></thead><tbody>",
        );
    }
    for spread in &confidence.budgets {
        let show = |value: Option<f64>| planned.show(&spread.budget, value);
        let window = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| show(Some(value)));
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&spread.budget),
            show(spread.predicted),
            spread.error.map_or_else(|| "–".to_owned(), |error| format!("± {}", show(Some(error)))),
            window(spread.least),
            window(spread.most),
            show(spread.first_half),
            show(spread.second_half),
            spread.verdict()
        );
    }
    if !confidence.budgets.is_empty() {
        text.push_str("</tbody></table></div>\n</section>\n");
    }
    text.push_str("<section aria-labelledby=\"change\"><h2 id=\"change\">What would change it</h2>\n");
    text.push_str("<div class=\"scroll\"><table><thead><tr><th>change</th><th class=\"words\">figures</th><th>life</th><th class=\"words\">verdict</th></tr></thead><tbody>");
    for change in &answer.sensitivity {
        let figures: Vec<String> =
            change.figures.iter().map(|(name, value)| format!("{name} {}", planned.show(name, *value))).collect();
        let (life, verdict) = (change.life().unwrap_or_else(|| "–".to_owned()), change.verdict());
        let _ = write!(
            text,
            "<tr><td class=\"words\">{}</td><td class=\"words\">{}</td><td>{life}</td><td class=\"words\">{}</td></tr>",
            escaped(&change.change),
            escaped(&figures.join(", ")),
            escaped(&verdict)
        );
    }
    text + "</tbody></table></div>\n</section>\n"
}

/// Returns the options that no other option beats, with the figures that are compared and the
/// budgets.
fn front(planned: &Planned) -> String {
    let figures = planned.compared();
    let heads: String = figures.iter().map(|budget| format!("<th>{}</th>", escaped(&budget.name()))).collect();
    let rows: String = planned.front.iter().map(|&at| front_row(&planned.tried[at], &figures)).collect();
    format!(
        "<section aria-labelledby=\"front\"><h2 id=\"front\">Options that nothing beats</h2>\n<p>No other option that was simulated is better in \
         price, {}, life and energy at once.</p>\n<div class=\"scroll\"><table><thead><tr><th>option</th><th>price</th>{heads}\
         <th>life <small>years</small></th><th>energy</th></tr></thead><tbody>{rows}</tbody></table></div>\n</section>\n",
        escaped(&planned.latency.name())
    )
}

fn front_row(tried: &Tried, columns: &[&Budget]) -> String {
    let figures = tried.figures();
    let none = || "–".to_owned();
    let shown = |budget: &&Budget| {
        let value = figures.and_then(|figures| figures.of(budget));
        format!("<td>{}</td>", value.map_or_else(none, |value| budget.show(Some(value))))
    };
    let cells: String = columns.iter().map(shown).collect();
    let has_flash = |figures: &&Figures| figures.lives.as_ref().is_some_and(|lives| !lives.is_empty());
    let life = figures.filter(has_flash).map(Figures::life_range);
    let life = match (figures.and_then(Figures::life_years), life.and_then(|(least, _)| least)) {
        (Some(years), Some(_)) if years.is_finite() => short_years(years),
        (_, Some(least)) if least.is_finite() => format!("{} or more", short_years(least)),
        (_, Some(_)) => "∞".to_owned(),
        (_, None) => none(),
    };
    let energy = figures.and_then(|figures| figures.energy_j);
    let energy = energy.map_or_else(none, |joules| format!("{} J", short(joules)));
    let (name, price) = (escaped(&name(&tried.candidate)), price(tried.candidate.cost_usd));
    format!("<tr><td class=\"words\">{name}</td><td>{price}</td>{cells}<td>{life}</td><td>{energy}</td></tr>")
}

/// Returns every other option and the reason for which it is not the best.
fn rejected(answer: &Answer) -> String {
    let mut rows = String::new();
    for rejected in answer.rejected.iter().take(ROWS_MAX) {
        let _ = write!(
            rows,
            "<tr><td class=\"words\">{}</td><td class=\"words\">{}</td></tr>",
            escaped(&rejected.option.name),
            escaped(&rejected.reason)
        );
    }
    let more = answer.rejected.len().saturating_sub(ROWS_MAX);
    let more = if more > 0 { format!("<p>And {more} more, in the JSON.</p>") } else { String::new() };
    format!(
        "<section aria-labelledby=\"rejected\"><h2 id=\"rejected\">Why not the others</h2>\n<details class=\"run\"><summary>{} \
         options</summary><div class=\"scroll\"><table class=\"drives\"><thead><tr><th>option</th><th>why not</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>{more}</details>\n</section>\n",
        answer.rejected.len()
    )
}

fn command(answer: &Answer) -> String {
    answer.command.as_deref().map_or_else(String::new, |command| {
        format!(
            "<section aria-labelledby=\"command\"><h2 id=\"command\">The command that made this</h2>\n\
             <div class=\"command\"><pre tabindex=\"0\">{}</pre></div></section>\n",
            escaped(command)
        )
    })
}

/// Returns the charts, each with one point per option.
fn figures(planned: &Planned) -> Value {
    let Planned { tried, front, latency, .. } = planned;
    let points = |value: &dyn Fn(&Tried) -> Option<f64>| -> Vec<Value> {
        // Points that keep the budgets are drawn last: they hide others of the same place.
        let (kept, broken): (Vec<_>, Vec<_>) = tried.iter().enumerate().partition(|(_, tried)| tried.keeps_all());
        let shown = broken.into_iter().chain(kept.into_iter().rev()).filter_map(|(at, tried)| {
            let value = value(tried).filter(|value| *value > 0.0 && value.is_finite())?;
            let mut point = point(tried, value, latency, front.contains(&at));
            // The first option is the answer if it keeps the budgets.
            point["chosen"] = Value::Bool(at == 0 && planned.answer.best.is_some());
            Some(point)
        });
        shown.collect()
    };
    json!([
        {
            "title": format!("Price and {}", latency.name()),
            "about": "Further down is faster, further left is cheaper. Filled points are known to keep every budget.",
            "unit": "ms",
            "lowerIsBetter": true,
            "series": points(&|tried: &Tried| tried.figures()?.of(latency)),
        },
        {
            "title": "Price and life of the flash",
            "about": "Further up lasts longer. What is never worn out is not shown.",
            "unit": "years",
            "lowerIsBetter": false,
            "series": points(&|tried: &Tried| tried.figures()?.life_years()),
        },
    ])
}

fn point(tried: &Tried, value: f64, latency: &Budget, on_front: bool) -> Value {
    let candidate = &tried.candidate;
    let scheme = candidate.scheme.name;
    let verdict = if tried.reasons.is_empty() { "keeps the budgets".to_owned() } else { tried.reasons.join("; ") };
    let on_front = if on_front { "; nothing beats it" } else { "" };
    json!({
        "label": scheme,
        "name": match candidate.drive(Role::Ssd) {
            Some(ssd) => format!("{scheme} {}", decimal(ssd.size.0)),
            None => scheme.to_owned(),
        },
        "colour": palette::ink_of(scheme).colour,
        "dashed": !tried.reasons.is_empty(),
        "point": [candidate.cost_usd, value],
        "note": format!("{}; {}; {verdict}{on_front}", sentence(tried, latency), name(candidate)),
    })
}
