/*
 * Says what the module offers and needs.
 */

/** Reads and verifies the files of logs, in plain Java. */
module seawall.reader {
    exports seawall.reader;
}
