package seawall.reader;

/** Names the rules of the format that a header or a batch can break. */
enum Fault {
    SHORT("the file ends here"),
    MAGIC("no header starts here"),
    CHECKSUM("the header's checksum is wrong"),
    VERSION("its format version is not known"),
    PLACE("it was written for another log, segment or offset"),
    FIELDS("a header field has no meaning"),
    CLASS("its durability class is not known"),
    FEATURES("it needs features that are not known"),
    LENGTH("it is longer than its segment"),
    EPOCH("it belongs to another epoch"),
    LSN("its LSN is not the one due here"),
    LINK("it does not follow the batch before it"),
    CLAIMS("it claims what cannot have been known"),
    BODY("the checksum of its records is wrong"),
    RECORDS("its records do not fill it as stated");

    final String text;

    Fault(String text) {
        this.text = text;
    }

    /** A broken rule; thrown where the caller has to decide what it means. Carries no stack, because searches meet thousands. */
    static final class Broken extends Exception {
        private static final long serialVersionUID = 1;
        final Fault fault;
        /** The version, class or feature bits that are not known. */
        final long value;

        Broken(Fault fault, long value) {
            super(fault.text, null, false, false);
            this.fault = fault;
            this.value = value;
        }

        Broken(Fault fault) {
            this(fault, 0);
        }
    }
}
