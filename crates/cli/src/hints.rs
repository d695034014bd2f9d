//! Offers shell completions for the common values of an option, without refusing others.
//!
//! Invariant: what is offered comes from the tables that the values are looked up in, so that none can be missing.

use crate::exit::Failure;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use seawall_gauge::advise::products::PRODUCTS;
use seawall_gauge::method_names::ALIASES;
use seawall_gauge::require::PRESETS;
use seawall_sys::durability::FileState;
use seawall_sys::methods;
use std::ffi::OsStr;

#[derive(Clone)]
pub(crate) struct Offered {
    values: fn() -> Vec<&'static str>,
}

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.values)().into_iter().map(PossibleValue::new)))
    }
}

/// `--methods`: groups, ids of this system and the names that databases use.
pub(crate) fn methods() -> Offered {
    Offered {
        values: || {
            let known = methods::here().iter().map(|method| method.id).chain(ALIASES.map(|(alias, _)| alias));
            ["published", "durable", "all"].into_iter().chain(known).collect()
        },
    }
}

pub(crate) fn presets() -> Offered {
    Offered { values: || PRESETS.iter().map(|preset| preset.name).collect() }
}

pub(crate) fn products() -> Offered {
    Offered { values: || PRODUCTS.iter().flat_map(|product| product.words).copied().collect() }
}

pub(crate) fn states() -> impl TypedValueParser<Value = FileState> {
    const NAMES: fn() -> Vec<&'static str> = || FileState::ALL.map(FileState::name).to_vec();
    Offered { values: NAMES }.try_map(|text| {
        let found = FileState::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| Failure::Usage(format!("the file states are {}", NAMES().join(", "))))
    })
}
