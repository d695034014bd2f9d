//! Selects the rows of the method table that write relaxed commits, and the row that syncs them.
//!
//! A segment is opened by the log's own row, also by a *weaker* row for each lower class that a cheaper row reaches,
//! and by a *settling* row, whose sync makes durable what the weaker rows wrote: a write on `O_DIRECT|O_DSYNC` may go
//! out as a forced write that flushes nothing but itself. All of it is computed from the classes, never from names.
//!
//! A log of a class below power loss has a settling row too: it starts segments, closes and makes trims durable in full.
//! Its batches in full take the settling row, all others the log's own row.
//!
//! Invariants: a weaker row reaches at least the requested class; the sync call alone of the settling row reaches the
//! class of the log, and in a weaker log as much as any sync call does; all rows of a log take the same way to the disk, through the page cache or around it, because
//! the content of a file that is written both ways at once is up to the file system; where there is no such row, the
//! commit takes the log's own.

use seawall_sys::Method;
use seawall_sys::durability::{Class, Surroundings, classify};
use seawall_sys::engine::Engine;
use seawall_sys::method::{Cache, OpenSync, Sync, Write};

use crate::commit::sync_debt::Grade;
use crate::method::select::drivable;

/// The rows of one log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// What the log promises.
    pub(crate) class: Class,
    /// For each weaker grade the row that a batch of that grade takes.
    pub(crate) weaker: [Option<&'static Method>; 2],
    /// The row whose sync settles debts; there are no weaker rows without it.
    pub(crate) settling: Option<&'static Method>,
    /// Whether the sync of a batch in full does so itself.
    pub(crate) full_settles: bool,
}

/// What the sync call of a row is worth by itself: that of a write through the page cache that is then synced.
fn sync_alone(method: &Method) -> Method {
    Method { cache: Cache::Buffered, open_sync: OpenSync::None, write: Write::Positional, ..*method }
}

impl Rows {
    /// The rows among `table` that go beside `own`, the row of a log that promises `class`.
    pub(crate) fn beside(
        own: &'static Method,
        class: Class,
        around: &Surroundings,
        table: &'static [Method],
    ) -> Self {
        let settled = |method: &Method| classify(&sync_alone(method), around).class;
        // Rings are set up once for the lanes of the log's own row; what stands beside it makes plain calls.
        let plain = |method: &Method| method.engine() != Engine::IoUring;
        let beside = |method: &Method| drivable(method) && plain(method) && method.cache == own.cache;
        let alike: Vec<&'static Method> = table.iter().filter(|method| beside(method)).collect();
        let own_grade = Grade::of(class);
        let syncs = |row: &Method| row.sync != Sync::None;
        // What a weaker log syncs is to be as safe as anything here can be.
        let target = match own_grade {
            Grade::Full => class,
            _ => alike.iter().filter(|row| syncs(row)).map(|row| settled(row)).max().unwrap_or(class),
        };
        let settles = |row: &Method| settled(row) >= target && (own_grade == Grade::Full || syncs(row));
        let own_settles = settles(own);
        let own_plainly = Some(own).filter(|own| own_settles && plain(own));
        // One that leaves timestamps alone is cheaper.
        let plainest =
            || alike.iter().filter(|row| settles(row)).max_by_key(|row| row.sync == Sync::Fdatasync);
        let settling = own_plainly.or_else(|| match own_grade {
            Grade::Full => alike.iter().find(|row| settles(row)).copied(),
            _ => plainest().copied(),
        });
        let full_settles = own_settles || own_grade != Grade::Full;
        let weaker = Grade::WEAKER.map(|grade| {
            let reach = |row: &Method| classify(row, around).class;
            let fits = alike.iter().filter(|row| reach(row) >= class_of(grade) && reach(row) < class);
            // The least that will do; of equals the first of the table.
            fits.min_by_key(|row| reach(row)).copied().filter(|_| settling.is_some())
        });
        Self { class, weaker, settling, full_settles }
    }

    /// The grade that the log promises.
    pub(crate) fn own(&self) -> Grade {
        Grade::of(self.class)
    }

    /// The grade in which a commit is served that asks for `class`: the one of the row it will take.
    pub(crate) fn grade(&self, class: Class) -> Grade {
        let asked = Grade::of(class);
        let Some(row) = self.weaker.get(asked as usize).copied().flatten() else { return self.own() };
        // One row for both grades: what it wrote is as safe as the higher of the two.
        let highest = Grade::WEAKER.into_iter().rev().find(|grade| self.weaker[*grade as usize] == Some(row));
        highest.unwrap_or(asked)
    }
}

const fn class_of(grade: Grade) -> Class {
    match grade {
        Grade::Process => Class::ProcessCrash,
        Grade::System => Class::SystemCrash,
        Grade::Full => Class::PowerLoss,
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, class_of, sync_alone};
    use crate::commit::sync_debt::Grade;
    use crate::method::select::drivable;
    use seawall_sys::durability::{Class, DeviceCache, FileState, Medium, Promiser, Surroundings, classify};
    use seawall_sys::engine::Engine;
    use seawall_sys::method::Method;
    use seawall_sys::methods;

    fn around(device_cache: DeviceCache, copy_on_write: bool, medium: Medium) -> Surroundings {
        Surroundings {
            medium,
            copy_on_write,
            shares_extents: copy_on_write,
            file_state: FileState::ZeroFilled,
            device_cache,
            cached_image: false,
            forced_writes_honoured: None,
            syncfs_flushes: true,
            promiser: Promiser::Device,
            lies: Vec::new(),
        }
    }

    fn every_surroundings() -> Vec<Surroundings> {
        let mut all = Vec::new();
        for cache in [DeviceCache::WriteBack, DeviceCache::WriteThrough, DeviceCache::Unknown] {
            for copy_on_write in [false, true] {
                all.extend(
                    [Medium::Block, Medium::Memory].map(|medium| around(cache, copy_on_write, medium)),
                );
            }
        }
        all
    }

    fn row(table: &'static [Method], id: &str) -> &'static Method {
        table.iter().find(|method| method.id == id).expect("a known row")
    }

    /// The ids of the weaker rows and of the settling one, on Linux with a cache that needs flushing.
    fn ids(own: &str, class: Class) -> (Option<&'static str>, Option<&'static str>, Option<&'static str>) {
        let table = methods::of(seawall_sys::method::System::Linux);
        let around = around(DeviceCache::WriteBack, false, Medium::Block);
        let rows = Rows::beside(row(table, own), class, &around, table);
        let id = |row: Option<&'static Method>| row.map(|row| row.id);
        (id(rows.weaker[0]), id(rows.weaker[1]), id(rows.settling))
    }

    #[test]
    fn the_usual_rows_have_the_companions_one_expects() {
        use Class::{PowerLoss, ProcessCrash, SystemCrash};
        let direct = (Some("direct"), Some("direct"), Some("direct+fdatasync"));
        assert_eq!(ids("direct+dsync", PowerLoss), direct);
        assert_eq!(ids("direct+fdatasync", PowerLoss), direct);
        let buffered = (Some("buffered"), None, Some("buffered+fdatasync"));
        assert_eq!(ids("buffered+fdatasync", PowerLoss), buffered);
        assert_eq!(ids("direct", SystemCrash), (None, None, Some("direct+fdatasync")));
        assert_eq!(ids("buffered", ProcessCrash), (None, None, Some("buffered+fdatasync")));
    }

    /// A weaker log syncs by a call that is worth as much as any here, and everything it writes takes one way to the disk.
    #[test]
    fn every_log_of_a_weaker_class_has_a_row_that_syncs() {
        for around in every_surroundings() {
            for table in methods::ALL {
                for own in table.iter().filter(|method| drivable(method)) {
                    for class in [Class::ProcessCrash, Class::SystemCrash] {
                        if classify(own, &around).class < class {
                            continue;
                        }
                        let rows = Rows::beside(own, class, &around, table);
                        let settling = rows.settling.unwrap_or_else(|| panic!("{}: nothing syncs", own.id));
                        assert!(rows.full_settles && settling.cache == own.cache, "{}", own.id);
                        let alike = table.iter().filter(|row| {
                            drivable(row) && row.cache == own.cache && row.engine() == Engine::Portable
                        });
                        let best = alike.map(|row| classify(&sync_alone(row), &around).class).max();
                        assert_eq!(Some(classify(&sync_alone(settling), &around).class), best, "{}", own.id);
                    }
                }
            }
        }
    }

    #[test]
    fn over_all_rows_and_surroundings_nothing_is_weaker_than_asked_or_settled_by_less_than_promised() {
        let mut companions = 0;
        for around in every_surroundings() {
            for table in methods::ALL {
                for own in table.iter().filter(|method| drivable(method)) {
                    for class in Class::ALL {
                        if classify(own, &around).class < class {
                            continue;
                        }
                        let rows = Rows::beside(own, class, &around, table);
                        for grade in Grade::WEAKER {
                            let Some(weak) = rows.weaker[grade as usize] else {
                                assert_eq!(rows.grade(class_of(grade)), rows.own());
                                continue;
                            };
                            companions += 1;
                            let reached = classify(weak, &around).class;
                            assert!(
                                reached >= class_of(grade) && reached < class,
                                "{} beside {}",
                                weak.id,
                                own.id
                            );
                            assert_eq!(weak.cache, own.cache);
                            let settling = rows.settling.expect("no debt without a way to settle it");
                            assert!(
                                classify(&sync_alone(settling), &around).class >= class,
                                "{}",
                                settling.id
                            );
                            let served = rows.grade(class_of(grade));
                            assert!(served >= grade && served < rows.own());
                            assert!(classify(weak, &around).class >= class_of(served));
                        }
                    }
                }
            }
        }
        assert!(companions > 20, "{companions}");
    }
}
