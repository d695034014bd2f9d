/*
 * Says what the module offers and needs.
 */

/** An embeddable transaction log with durable group commit. Needs native access: {@code --enable-native-access=seawall}. */
module seawall {
    exports seawall;
}
