import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;

/** Writes a PKCS12 store's key and certificate as PEM, which keytool cannot. Run as a source file. */
public final class KeyExport {
    private KeyExport() {
    }

    public static void main(String[] args) throws Exception {
        Path store = Path.of(args[0]);
        char[] password = args[1].toCharArray();
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            keys.load(in, password);
        }
        String alias = keys.aliases().nextElement();
        write(store.resolveSibling("key.pem"), "PRIVATE KEY", keys.getKey(alias, password).getEncoded());
        write(store.resolveSibling("cert.pem"), "CERTIFICATE", keys.getCertificate(alias).getEncoded());
    }

    private static void write(Path file, String kind, byte[] content) throws Exception {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
        Files.writeString(file, "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n");
    }
}
