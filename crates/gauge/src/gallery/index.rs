//! The first page of a gallery: what a durable commit costs on each machine, then every method on every machine.
//!
//! Invariants: a table has every figure, scripts only hide rows; a colour is a class, as in reports, and never its only sign.

use super::machine::{Machine, Method};
use crate::figures::{plural, tight};
use crate::rank::EffectiveClass;
use crate::report::figure::scene::Ink;
use crate::report::html::CSS;
use crate::report::html::document::Document;
use crate::report::html::escape::{Id, Text};
use crate::report::markdown::add;
use seawall_sys::method::System;
use std::collections::BTreeSet;

const OWN_CSS: &str = include_str!("gallery.css");
const OWN_JS: &str = include_str!("gallery.js");

/// A choice above the tables: its name in the page, its label, and what it is of a machine.
type Choice = (&'static str, &'static str, fn(&Machine) -> String);

const CHOICES: [Choice; 3] = [
    ("device", "device", |machine| machine.device.to_owned()),
    ("class", "best that is had", |machine| best_class(machine).to_owned()),
    ("provider", "provider", |machine| machine.provider.clone()),
];

/// The index of `machines`.
pub(super) fn page(machines: &[Machine], generator: &str) -> String {
    let mut sorted: Vec<&Machine> = machines.iter().collect();
    let typical = |machine: &Machine| machine.durable().map_or(f64::INFINITY, |method| method.typical_ns);
    sorted.sort_by(|a, b| typical(a).total_cmp(&typical(b)));
    let measured = machines.iter().filter(|machine| !machine.is_published).count() as u64;
    let published = machines.len() as u64 - measured;
    let mut main = format!(
        "<p>{} and {}. Each was handed in or taken from a publication: its figures are its source's, and nobody has checked \
         them here. What a commit outlives is computed from the calls and from what the source says of the machine.</p>\n",
        plural(measured, "result", "results"),
        plural(published, "published table", "published tables"),
    );
    main += &filter(&sorted);
    main += &overview(&sorted);
    main += &legend();
    let systems = [
        (System::Linux, "Linux"),
        (System::Windows, "Windows"),
        (System::MacOs, "macOS"),
        (System::Illumos, "illumos"),
    ];
    for (system, name) in systems {
        let of: Vec<&Machine> = sorted.iter().copied().filter(|machine| machine.system == system).collect();
        if !of.is_empty() {
            main += &matrix(name, &of);
        }
    }
    let contents: Vec<(String, String)> =
        vec![("machines".to_owned(), "Machines".to_owned()), ("methods".to_owned(), "Methods".to_owned())];
    Document {
        title: "What a durable commit costs",
        generator,
        brand: "a gallery of results, made by seawall",
        contents: &contents,
        main: &main,
        footer: "Made by <code>seawall gallery</code>. Static pages: nothing is loaded, nothing is sent, nothing is counted. Names of \
                 machines, users, paths and serial numbers are left out.",
        styles: &[CSS, OWN_CSS, &marks()],
        data: "",
        scripts: &[OWN_JS],
    }
    .text()
}

/// The classes that colour a span's marks.
fn marks() -> String {
    let rule = |class: EffectiveClass| {
        let name = Ink::of(class).name();
        format!(".mark-{name} {{ fill: var(--{name}); stroke: var(--{name}); }}\n")
    };
    EffectiveClass::ALL.map(rule).concat() + ".mark-rule { stroke: var(--grid); }\n"
}

fn best_class(machine: &Machine) -> &'static str {
    machine.methods.first().map_or("nothing", |method| method.class.name())
}

fn filter(machines: &[&Machine]) -> String {
    let mut out = "<form class=\"filter\" hidden aria-label=\"Which machines are shown\">\n".to_owned();
    for (name, label, of) in CHOICES {
        let values: BTreeSet<String> = machines.iter().map(|machine| of(machine)).collect();
        let option = |value: &String| format!("<option value=\"{0}\">{0}</option>", Text(value));
        let options = values.iter().map(option).collect::<Vec<_>>().concat();
        add(
            &mut out,
            &format!(
                "<label>{label} <select name=\"{name}\"><option value=\"\">all</option>{options}</select></label>\n"
            ),
        );
    }
    out + "<output class=\"soft\" aria-live=\"polite\"></output>\n</form>\n"
}

/// The start of a machine's row, with what the filter reads.
fn row_start(machine: &Machine, id: bool) -> String {
    let page = machine.page.trim_end_matches(".html");
    let id = if id { format!(" id=\"m-{}\"", Text(page)) } else { String::new() };
    let chosen = CHOICES.map(|(name, _, of)| format!(" data-{name}=\"{}\"", Text(&of(machine)))).concat();
    let about =
        format!("{}{}", machine.about, machine.doubt.map_or(String::new(), |doubt| format!(" · {doubt}")));
    format!(
        "<tr{id} data-page=\"{}\"{chosen}><th scope=\"row\"><a href=\"{}\">{}</a><small>{}</small></th>",
        Text(page),
        Text(&machine.page),
        Text(&machine.name),
        Text(&about)
    )
}

fn overview(machines: &[&Machine]) -> String {
    let mut out = "<h3 id=\"machines\">Machines</h3>\n".to_owned();
    out += "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Machines\"><table class=\"machines\"><thead><tr>";
    let heads = [
        ("Machine", ""),
        ("Durable commit", ""),
        ("p99", ""),
        ("Not durable", ""),
        (
            "Price of durability",
            " title=\"a durable commit against the fastest that is not, on that machine\"",
        ),
        ("1 µs to 100 ms", " class=\"name\""),
        ("By", " class=\"name\""),
        ("Device", " class=\"name\""),
        ("Provider", " class=\"name\""),
        ("Files", " class=\"name\""),
    ];
    for (head, more) in heads {
        add(&mut out, &format!("<th scope=\"col\"{more}>{head}</th>"));
    }
    out += "</tr></thead>\n<tbody>\n";
    for machine in machines {
        out += &row_start(machine, true);
        let kind = if machine.is_published { "mean" } else { "p50" };
        let typical = |method: Option<&Method>| {
            method.map_or("-".to_owned(), |method| {
                format!("{}<small>{kind}</small>", Text(&tight(method.typical_ns)))
            })
        };
        let durable = machine.durable();
        let p99 = durable.and_then(|method| method.p99_ns).map_or("-".to_owned(), tight);
        let price =
            machine.price().map_or("-".to_owned(), |times| format!("{}×", crate::figures::rate(times)));
        let by = durable.or(machine.methods.first()).map_or("-".to_owned(), |method| {
            format!(
                "<code>{}</code><small>{}{}</small>",
                Id(&method.id),
                dot(method.class),
                Text(method.class.name())
            )
        });
        add(
            &mut out,
            &format!(
                "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"name by\">{by}</td><td class=\"name\">{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td></tr>\n",
                typical(durable),
                Text(&p99),
                typical(machine.not_durable()),
                Text(&price),
                span(machine),
                Text(machine.device),
                Text(&machine.provider),
                Text(&machine.files),
            ),
        );
    }
    out += "</tbody></table></div>\n";
    out + "<p class=\"soft\">A commit of one writer's transaction, by the method that the report of that machine recommends; \
           \"nothing recommended\", \"at most\", \"interrupted\" and published tables: by the fastest that outlives power loss, if who promises that keeps its word; \"cannot tell\": the figures mean something else. Not durable: the fastest method there whose commits a power cut loses. p50: the median; mean: all that a published table states.</p>\n"
}

fn dot(class: EffectiveClass) -> String {
    format!("<i class=\"dot {}\"></i>", Ink::of(class).name())
}

/// From what is not durable to what is, on a logarithmic axis.
fn span(machine: &Machine) -> String {
    const WIDTH: f64 = 240.0;
    let at = |ns: f64| (ns.max(1_000.0) / 1_000.0).log10().clamp(0.0, 5.0) / 5.0 * (WIDTH - 16.0) + 8.0;
    let mut out = format!("<svg class=\"span\" viewBox=\"0 0 {WIDTH} 27\" aria-hidden=\"true\">");
    for power in 0..=5 {
        let x = at(10_f64.powi(power + 3));
        add(&mut out, &format!("<line class=\"mark-rule\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"2\" y2=\"25\"/>"));
    }
    let ends = [machine.not_durable(), machine.durable()];
    if let [Some(weak), Some(durable)] = ends {
        let (from, to, ink) = (at(weak.typical_ns), at(durable.typical_ns), Ink::of(durable.class).name());
        add(
            &mut out,
            &format!(
                "<line class=\"mark-{ink}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"13.5\" y2=\"13.5\" stroke-width=\"2\"/>"
            ),
        );
    }
    if let Some((method, p99)) = machine.durable().and_then(|method| Some((method, method.p99_ns?))) {
        let (from, to) = (at(method.typical_ns), at(p99));
        let ink = Ink::of(method.class).name();
        add(
            &mut out,
            &format!(
                "<rect class=\"mark-{ink}\" x=\"{from:.1}\" y=\"10.5\" width=\"{:.1}\" height=\"6\"/>",
                (to - from).max(0.0)
            ),
        );
    }
    for method in ends.into_iter().flatten() {
        let (x, ink) = (at(method.typical_ns), Ink::of(method.class).name());
        add(&mut out, &format!("<circle class=\"mark-{ink}\" cx=\"{x:.1}\" cy=\"13.5\" r=\"5\"/>"));
    }
    out + "</svg>"
}

fn legend() -> String {
    let words = [
        (
            EffectiveClass::PowerLoss,
            "solid: outlives power loss, if who promises it on that machine keeps its word",
        ),
        (EffectiveClass::NotConfirmed, "double: claims to, and the device's counters say otherwise"),
        (EffectiveClass::SystemCrash, "dashed: outlives a crash of the system only"),
        (EffectiveClass::ProcessCrash, "dotted: outlives a crash of the process only"),
    ];
    let each = words.map(|(class, words)| format!("<li>{}{words}</li>", dot(class))).concat();
    format!(
        "<h3 id=\"methods\">Methods</h3>\n<p class=\"soft\">The median of each method; of published tables the mean.</p>\n<ul class=\"key\">{each}</ul>\n"
    )
}

/// Every method of a system on every machine that has it.
fn matrix(system: &str, machines: &[&Machine]) -> String {
    let mut ids: Vec<&str> = Vec::new();
    for method in machines.iter().flat_map(|machine| &machine.methods) {
        if !ids.contains(&method.id.as_str()) {
            ids.push(&method.id);
        }
    }
    // Methods that most machines have come first.
    let having = |id: &str| {
        machines.iter().filter(|machine| machine.methods.iter().any(|method| method.id == id)).count()
    };
    ids.sort_by_key(|id| std::cmp::Reverse(having(id)));
    let mut out = format!("<section class=\"of-system\">\n<h4>{system}</h4>\n");
    add(
        &mut out,
        &format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Methods of {system}\"><table class=\"matrix\"><thead><tr><th scope=\"col\">Machine</th>"
        ),
    );
    for id in &ids {
        add(&mut out, &format!("<th scope=\"col\"><span>{}</span></th>", Text(id)));
    }
    out += "</tr></thead>\n<tbody>\n";
    for machine in machines {
        out += &row_start(machine, false);
        for id in &ids {
            let method = machine.methods.iter().find(|method| method.id == *id);
            out += &method.map_or("<td class=\"muted\">-</td>".to_owned(), |method| {
                format!(
                    "<td class=\"of of-{}\" title=\"outlives: {}\">{}</td>",
                    Ink::of(method.class).name(),
                    Text(method.class.name()),
                    Text(&tight(method.typical_ns))
                )
            });
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n</section>\n"
}
