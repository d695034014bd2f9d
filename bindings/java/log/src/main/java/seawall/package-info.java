/**
 * An embeddable transaction log: durable group commit at the speed of the disk, and recovery that tells a torn tail from damage.
 *
 * <p>{@link seawall.Log} is the log of one writing process, {@link seawall.View} reads it from any other, {@link seawall.Log#verify} lists
 * what is damaged. The work is done by a native library inside this jar, which is called through {@code java.lang.foreign}; run the
 * JVM with {@code --enable-native-access=ALL-UNNAMED}, or with the name of the module.
 *
 * <p>LSNs and sequence numbers are positions, never negative. What a commit promises is the same in every language: see "What durable
 * means" in the guide of the library.
 */
package seawall;
