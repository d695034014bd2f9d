//! Selects the rows of the method table that write relaxed commits, and the row that syncs them.
//!
//! A segment is opened by the log's own row, also by a *relaxed* row for each lower class that a cheaper row reaches,
//! and by a *syncing* row, whose sync makes durable what the relaxed rows wrote: a write on `O_DIRECT|O_DSYNC` may go
//! out as a forced write that flushes nothing but itself. All of it is computed from the classes, never from names.
//!
//! A log of a class below power loss has a syncing row too: it starts segments, closes and makes trims durable in full.
//! Its batches in full take the syncing row, all others the log's own row.
//!
//! Invariants: a relaxed row reaches at least the requested class; the sync call alone of the syncing row reaches the
//! class of the log, and in a log of a lower class as deep as any sync call here; all rows of a log write through the page
//! cache, or all around it, because the content of a file that is written both ways at once depends on the file system;
//! where there is no such row, the commit takes the log's own.

use seawall_sys::Method;
use seawall_sys::durability::{Durability, Surroundings, classify};
use seawall_sys::engine::Engine;
use seawall_sys::method::{Cache, OpenSync, Sync, Write};

use crate::method::ack_level::AckLevel;
use crate::method::eligible::drivable;

/// The rows of one log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) class: Durability,
    pub(crate) relaxed: [Option<&'static Method>; 2],
    /// The row whose sync makes relaxed batches durable; there are no relaxed rows without it.
    pub(crate) syncing: Option<&'static Method>,
    /// Whether the sync of a batch in full does that as well.
    pub(crate) full_syncs_debt: bool,
}

/// The row whose only durable call is the sync call of `method`: a write through the page cache that is then synced.
fn sync_alone(method: &Method) -> Method {
    Method { cache: Cache::Buffered, open_sync: OpenSync::None, write: Write::Positional, ..*method }
}

impl Rows {
    /// The relaxed rows and the syncing row among `table` for `own`, the row of a log that promises `class`.
    pub(crate) fn select(
        own: &'static Method,
        class: Durability,
        around: &Surroundings,
        table: &'static [Method],
    ) -> Self {
        let sync_class = |method: &Method| classify(&sync_alone(method), around).class;
        // Rings are set up once for the writers of the log's own row; the other rows make plain calls.
        let plain = |method: &Method| method.engine() != Engine::IoUring;
        let same_cache = |method: &Method| drivable(method) && plain(method) && method.cache == own.cache;
        let alike: Vec<&'static Method> = table.iter().filter(|method| same_cache(method)).collect();
        let own_level = AckLevel::of(class);
        let syncs = |row: &Method| row.sync != Sync::None;
        // A log of a lower class syncs as deep as any sync here reaches.
        let target = match own_level {
            AckLevel::Full => class,
            _ => alike.iter().filter(|row| syncs(row)).map(|row| sync_class(row)).max().unwrap_or(class),
        };
        let syncs_debt =
            |row: &Method| sync_class(row) >= target && (own_level == AckLevel::Full || syncs(row));
        let own_syncs_debt = syncs_debt(own);
        let own_plainly = Some(own).filter(|own| own_syncs_debt && plain(own));
        // fdatasync leaves timestamps alone and is cheaper.
        let plainest =
            || alike.iter().filter(|row| syncs_debt(row)).max_by_key(|row| row.sync == Sync::Fdatasync);
        let syncing = own_plainly.or_else(|| match own_level {
            AckLevel::Full => alike.iter().find(|row| syncs_debt(row)).copied(),
            _ => plainest().copied(),
        });
        let full_syncs_debt = own_syncs_debt || own_level != AckLevel::Full;
        let relaxed = AckLevel::RELAXED.map(|level| {
            let reach = |row: &Method| classify(row, around).class;
            let fits = alike.iter().filter(|row| reach(row) >= level.class() && reach(row) < class);
            // The least that will do; of equals the first of the table.
            fits.min_by_key(|row| reach(row)).copied().filter(|_| syncing.is_some())
        });
        Self { class, relaxed, syncing, full_syncs_debt }
    }

    /// The level that the log promises.
    pub(crate) fn own(&self) -> AckLevel {
        AckLevel::of(self.class)
    }

    /// The level that serves a commit which is to outlive `class`: that of the row it takes.
    pub(crate) fn level(&self, class: Durability) -> AckLevel {
        let requested = AckLevel::of(class);
        let Some(row) = self.relaxed.get(requested as usize).copied().flatten() else { return self.own() };
        // One row for both levels: what it wrote is as safe as the higher of the two.
        let highest =
            AckLevel::RELAXED.into_iter().rev().find(|level| self.relaxed[*level as usize] == Some(row));
        highest.unwrap_or(requested)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, sync_alone};
    use crate::method::ack_level::AckLevel;
    use crate::method::eligible::drivable;
    use crate::testing::fixtures::surroundings;
    use seawall_sys::durability::{DeviceCache, Durability, Medium, Surroundings, classify};
    use seawall_sys::engine::Engine;
    use seawall_sys::method::Method;
    use seawall_sys::methods;

    fn every_surroundings() -> Vec<Surroundings> {
        let mut all = Vec::new();
        for cache in [DeviceCache::WriteBack, DeviceCache::WriteThrough, DeviceCache::Unknown] {
            for copy_on_write in [false, true] {
                all.extend(
                    [Medium::Block, Medium::Memory].map(|medium| surroundings(cache, copy_on_write, medium)),
                );
            }
        }
        all
    }

    fn row(table: &'static [Method], id: &str) -> &'static Method {
        table.iter().find(|method| method.id == id).expect("a known row")
    }

    /// The ids of the relaxed rows and of the syncing one, on Linux with a cache that needs flushing.
    fn ids(
        own: &str,
        class: Durability,
    ) -> (Option<&'static str>, Option<&'static str>, Option<&'static str>) {
        let table = methods::of(seawall_sys::method::System::Linux);
        let around = surroundings(DeviceCache::WriteBack, false, Medium::Block);
        let rows = Rows::select(row(table, own), class, &around, table);
        let id = |row: Option<&'static Method>| row.map(|row| row.id);
        (id(rows.relaxed[0]), id(rows.relaxed[1]), id(rows.syncing))
    }

    #[test]
    fn the_usual_rows_get_the_expected_companions() {
        use Durability::{PowerLoss, ProcessCrash, SystemCrash};
        let direct = (Some("direct"), Some("direct"), Some("direct+fdatasync"));
        assert_eq!(ids("direct+dsync", PowerLoss), direct);
        assert_eq!(ids("direct+fdatasync", PowerLoss), direct);
        let buffered = (Some("buffered"), None, Some("buffered+fdatasync"));
        assert_eq!(ids("buffered+fdatasync", PowerLoss), buffered);
        assert_eq!(ids("direct", SystemCrash), (None, None, Some("direct+fdatasync")));
        assert_eq!(ids("buffered", ProcessCrash), (None, None, Some("buffered+fdatasync")));
    }

    /// A log of a lower class syncs by a call that reaches as deep as any here, and all its rows write through the page cache
    /// or all around it.
    #[test]
    fn every_log_of_a_lower_class_has_a_row_that_syncs() {
        for around in every_surroundings() {
            for table in methods::ALL {
                for own in table.iter().filter(|method| drivable(method)) {
                    for class in [Durability::ProcessCrash, Durability::SystemCrash] {
                        if classify(own, &around).class < class {
                            continue;
                        }
                        let rows = Rows::select(own, class, &around, table);
                        let syncing = rows.syncing.unwrap_or_else(|| panic!("{}: nothing syncs", own.id));
                        assert!(rows.full_syncs_debt && syncing.cache == own.cache, "{}", own.id);
                        let alike = table.iter().filter(|row| {
                            drivable(row) && row.cache == own.cache && row.engine() == Engine::Portable
                        });
                        let best = alike.map(|row| classify(&sync_alone(row), &around).class).max();
                        assert_eq!(Some(classify(&sync_alone(syncing), &around).class), best, "{}", own.id);
                    }
                }
            }
        }
    }

    #[test]
    fn no_relaxed_row_is_weaker_than_requested_nor_synced_by_less_than_promised() {
        let mut companions = 0;
        for around in every_surroundings() {
            for table in methods::ALL {
                for own in table.iter().filter(|method| drivable(method)) {
                    for class in Durability::ALL {
                        if classify(own, &around).class < class {
                            continue;
                        }
                        let rows = Rows::select(own, class, &around, table);
                        for level in AckLevel::RELAXED {
                            let Some(other) = rows.relaxed[level as usize] else {
                                assert_eq!(rows.level(level.class()), rows.own());
                                continue;
                            };
                            companions += 1;
                            let reached = classify(other, &around).class;
                            assert!(
                                reached >= level.class() && reached < class,
                                "{} for {}",
                                other.id,
                                own.id
                            );
                            assert_eq!(other.cache, own.cache);
                            let syncing = rows.syncing.expect("no relaxed row without a row that syncs");
                            assert!(classify(&sync_alone(syncing), &around).class >= class, "{}", syncing.id);
                            let served = rows.level(level.class());
                            assert!(served >= level && served < rows.own());
                            assert!(classify(other, &around).class >= served.class());
                        }
                    }
                }
            }
        }
        assert!(companions > 20, "{companions}");
    }
}
