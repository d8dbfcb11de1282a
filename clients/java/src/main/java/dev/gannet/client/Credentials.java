package dev.gannet.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The address of a server with the token and the TLS settings of its connections. It is immutable. A connection to a
 * loopback address is plaintext by default, and one to another address uses TLS with the CAs of the system.
 */
public final class Credentials {
    /** HOST:PORT or [IPV6]:PORT. */
    private static final Pattern ADDRESS =
            Pattern.compile("(?:\\[([0-9A-Fa-f:.%]+)]|([^:/\\[\\]\\s]+)):([0-9]{1,5})");

    private static final Pattern LOOPBACK = Pattern.compile("localhost|::1|127(?:\\.[0-9]{1,3}){3}");

    private final String address;
    private final String host;
    private final int port;
    private final String token;
    private final boolean isTls;
    private final Path caFile;

    private Credentials(String address, String token, Optional<Boolean> tls, Path caFile) {
        Matcher parts = ADDRESS.matcher(address);
        int number = parts.matches() ? Integer.parseInt(parts.group(3)) : 0;
        if (number < 1 || number > 65_535) {
            throw invalid("cannot use address '" + address + "'", "it is not HOST:PORT",
                    "pass one such as 127.0.0.1:7000", null);
        }
        if (token != null && !isPrintableAscii(token)) {
            throw invalid("cannot use token", "it is not printable ASCII",
                    "pass a token without other characters", null);
        }
        this.address = address;
        this.host = parts.group(1) == null ? parts.group(2) : parts.group(1);
        this.port = number;
        this.token = token;
        this.isTls = tls.orElseGet(() -> !LOOPBACK.matcher(host).matches());
        this.caFile = caFile;
    }

    /**
     * Returns credentials without a token, for servers whose users need no password.
     *
     * @param address HOST:PORT of {@code gannet serve --grpc}
     * @throws CacheException if the address is not HOST:PORT
     */
    public static Credentials noToken(String address) {
        return new Credentials(address, null, Optional.empty(), null);
    }

    /**
     * Returns credentials with a token: a password of the user default, or USER:PASSWORD, or a signed token.
     *
     * @param address HOST:PORT of {@code gannet serve --grpc}
     * @throws CacheException if the address is not HOST:PORT, or the token is empty or not printable ASCII
     */
    public static Credentials token(String address, String token) {
        if (token.isEmpty()) {
            throw invalid("cannot use token", "it is empty", "pass a token, or use Credentials.noToken(ADDRESS)", null);
        }
        return new Credentials(address, token, Optional.empty(), null);
    }

    /**
     * Returns credentials with the token in this environment variable.
     *
     * @param address HOST:PORT of {@code gannet serve --grpc}
     * @throws CacheException if the variable is not set, or its text is no token
     */
    public static Credentials tokenFromEnvironment(String address, String variable) {
        String token = System.getenv(variable);
        if (token == null || token.isBlank()) {
            throw invalid("cannot read token", "environment variable " + variable + " is not set",
                    "export " + variable + "=TOKEN", null);
        }
        return token(address, token.strip());
    }

    /** Returns a copy whose connections use TLS, with the CAs of the system. */
    public Credentials withTls() {
        return new Credentials(address, token, Optional.of(true), null);
    }

    /** Returns a copy whose connections use TLS, with the CAs in this PEM file instead of those of the system. */
    public Credentials withCaFile(Path path) {
        return new Credentials(address, token, Optional.of(true), path);
    }

    /** Returns a copy whose connections do not use TLS. The network can read the token and all values. */
    public Credentials withPlaintext() {
        return new Credentials(address, token, Optional.of(false), null);
    }

    /** Returns HOST:PORT. */
    public String address() {
        return address;
    }

    /** Returns the address. The token is secret. */
    @Override
    public String toString() {
        return "Credentials(" + address + ")";
    }

    String host() {
        return host;
    }

    int port() {
        return port;
    }

    Optional<String> token() {
        return Optional.ofNullable(token);
    }

    boolean isTls() {
        return isTls;
    }

    /** Returns the transport of gRPC, or throws a CacheException if the CA file cannot be used. */
    ChannelCredentials channelCredentials() {
        if (!isTls) {
            return InsecureChannelCredentials.create();
        }
        if (caFile == null) {
            return TlsChannelCredentials.create();
        }
        try {
            byte[] text = Files.readAllBytes(caFile);
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            if (factory.generateCertificates(new ByteArrayInputStream(text)).isEmpty()) {
                throw new CertificateException("it has no certificate");
            }
            return TlsChannelCredentials.newBuilder().trustManager(new ByteArrayInputStream(text)).build();
        } catch (CertificateException e) {
            throw invalid("cannot use CA file '" + caFile + "'", "it has no certificate",
                    "pass the path of a PEM file", e);
        } catch (IOException e) {
            throw invalid("cannot read CA file '" + caFile + "'", e.toString(), "pass the path of a PEM file", e);
        }
    }

    static boolean isPrintableAscii(String text) {
        for (int at = 0; at < text.length(); at++) {
            if (text.charAt(at) < ' ' || text.charAt(at) > '~') {
                return false;
            }
        }
        return true;
    }

    private static CacheException invalid(String action, String cause, String remedy, Throwable thrown) {
        return new CacheError(ErrorCode.INVALID_ARGUMENT, action, cause, remedy, thrown).toException();
    }
}
