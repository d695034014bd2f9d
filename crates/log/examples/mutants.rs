//! Does the crash campaign find every deliberate mistake, and how many states does it need?
//!
//! `mutants [NAME]` prints one line for each mistake, with the seeds of three campaigns.

use seawall::mutant::{Mutant, set};
use seawall::sim::campaign::{Campaign, run, sweep};

fn main() {
    let wanted = std::env::args().nth(1);
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        if wanted.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        set(Some(mutant));
        let campaign = Campaign { seed: 1, states: 100_000, ..Campaign::default() };
        match run(&campaign) {
            Err(failure) => println!("{name}: killed: {failure}"),
            Ok(_) => match sweep(3) {
                Err(failure) => println!("{name}: killed by the sweep: {failure}"),
                Ok(_) => println!("{name}: SURVIVED"),
            },
        }
        set(None);
    }
}
