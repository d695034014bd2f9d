/* Thrown by a row that cannot run here; the reason is printed behind "n/a:" and names the remedy. */
package seawall.path;

/** A row that cannot run here. */
final class Unavailable extends Exception {
    private static final long serialVersionUID = 1;

    Unavailable(String reason) {
        super(reason);
    }
}
