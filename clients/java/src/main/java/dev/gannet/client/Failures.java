package dev.gannet.client;

import io.grpc.Status;
import io.grpc.netty.shaded.io.netty.handler.codec.http2.Http2Exception;
import java.io.IOException;
import java.util.Locale;

/** Translates the statuses of gRPC into errors that name their remedies. */
final class Failures {
    private static final String REPEAT = "repeat the call; if it fails again, check that the server runs";

    /** The remedy of errors of graphs that name none; the general ones are for items. */
    private static final String GRAPH_LIMITS = "read the message, and docs/graph/README.md for the limits";

    private final Credentials target;
    private final int messageBytesMax;

    Failures(Credentials target, int messageBytesMax) {
        this.target = target;
        this.messageBytesMax = messageBytesMax;
    }

    /**
     * Returns the error of a call that ended with a status other than OK.
     *
     * @param service the service of the call, such as {@code Records}; empty for none
     * @param requestBytes the size of its request
     */
    CacheError errorOf(String action, String service, Status status, int requestBytes) {
        ErrorCode code = isOtherProtocol(status) ? ErrorCode.UNAVAILABLE : codeOf(status.getCode());
        if (code == ErrorCode.NOT_FOUND_CACHE && !String.valueOf(status.getDescription()).startsWith("the cache")) {
            code = notFoundOf(service);
        }
        String cause = status.getDescription() == null ? "" : status.getDescription().strip();
        if (cause.isEmpty()) {
            cause = status.getCode().name();
        }
        String remedy = service.equals("Graph") && hasLimitsOfItems(code) ? GRAPH_LIMITS : remedyOf(code);
        int split = cause.indexOf("; ");
        if (split >= 0 && code != ErrorCode.UNAVAILABLE) {
            // The server's own message names the remedy, unless it names commands that the library does not have.
            boolean namesCommands = code == ErrorCode.NOT_FOUND_CACHE || code == ErrorCode.NOT_FOUND_GRAPH;
            remedy = namesCommands ? remedy : cause.substring(split + 2);
            cause = cause.substring(0, split);
        }
        switch (code) {
            case UNAVAILABLE -> {
                return unavailable(action, status);
            }
            case UNAUTHENTICATED -> {
                cause = target.token().isPresent()
                        ? "the server does not accept the token"
                        : "the server needs a token, and none was passed";
                remedy = remedyOf(code);
            }
            case TIMEOUT -> {
                cause = "no reply arrived before the deadline";
                remedy = remedyOf(code);
            }
            case LIMIT_EXCEEDED -> {
                if (cause.contains("size limit exceeded")) {
                    cause = cause + ", and the request has " + requestBytes + " bytes";
                    remedy = "store less in one item, or raise the limit by --item-max of the server";
                } else if (cause.contains("message exceeds maximum size")) {
                    cause = "the reply is longer than the maximum of " + messageBytesMax + " bytes";
                    remedy = "read less in one call, or raise messageBytesMax";
                }
            }
            default -> { }
        }
        return new CacheError(code, action, cause, remedy, status.asException());
    }

    private static ErrorCode notFoundOf(String service) {
        return switch (service) {
            case "Records" -> ErrorCode.NOT_FOUND_RECORD;
            case "Graph" -> ErrorCode.NOT_FOUND_GRAPH;
            default -> ErrorCode.NOT_FOUND_CACHE;
        };
    }

    /** Returns true if the general remedy of this code is for items. */
    private static boolean hasLimitsOfItems(ErrorCode code) {
        return code == ErrorCode.FAILED_PRECONDITION || code == ErrorCode.LIMIT_EXCEEDED;
    }

    /** Returns true if the peer does not speak HTTP/2, which gRPC reports as an internal error. */
    private static boolean isOtherProtocol(Status status) {
        for (Throwable each = status.getCause(); each != null; each = each.getCause()) {
            if (each instanceof Http2Exception) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns the status of a call, which is UNAVAILABLE if its connection has ended. The library of gRPC reports
     * UNKNOWN if it writes a request to a connection that has just closed.
     */
    static Status ofTransport(Status status) {
        if (status.getCode() != Status.Code.UNKNOWN) {
            return status;
        }
        for (Throwable each = status.getCause(); each != null; each = each.getCause()) {
            if (each instanceof IOException) {
                return Status.UNAVAILABLE.withDescription(status.getDescription()).withCause(status.getCause());
            }
        }
        return status;
    }

    static ErrorCode codeOf(Status.Code code) {
        return switch (code) {
            case INVALID_ARGUMENT, OUT_OF_RANGE -> ErrorCode.INVALID_ARGUMENT;
            case NOT_FOUND -> ErrorCode.NOT_FOUND_CACHE;
            case ALREADY_EXISTS -> ErrorCode.ALREADY_EXISTS;
            case FAILED_PRECONDITION -> ErrorCode.FAILED_PRECONDITION;
            case UNAUTHENTICATED -> ErrorCode.UNAUTHENTICATED;
            case PERMISSION_DENIED -> ErrorCode.PERMISSION_DENIED;
            case RESOURCE_EXHAUSTED -> ErrorCode.LIMIT_EXCEEDED;
            case DEADLINE_EXCEEDED -> ErrorCode.TIMEOUT;
            case CANCELLED -> ErrorCode.CANCELLED;
            case UNAVAILABLE -> ErrorCode.UNAVAILABLE;
            case UNIMPLEMENTED -> ErrorCode.UNIMPLEMENTED;
            case ABORTED -> ErrorCode.ABORTED;
            case INTERNAL, DATA_LOSS -> ErrorCode.INTERNAL;
            default -> ErrorCode.UNKNOWN;
        };
    }

    private static String remedyOf(ErrorCode code) {
        return switch (code) {
            case INVALID_ARGUMENT -> "change the argument";
            case NOT_FOUND_CACHE -> "create the cache with createCache, or correct its name";
            case ALREADY_EXISTS -> "use the cache, or choose another name";
            case FAILED_PRECONDITION ->
                "use the calls of the item's type (getType returns it), or delete the item first";
            case UNAUTHENTICATED ->
                "pass Credentials.token(ADDRESS, TOKEN); the token is the password of the user default, "
                        + "or USER:PASSWORD";
            case PERMISSION_DENIED ->
                "create a token with this permission (gannet user token, or generateDisposableToken), "
                        + "or grant the right to the user with ACL SETUSER";
            case LIMIT_EXCEEDED -> "store less in one call, or raise the limit of the server";
            case ABORTED -> "read the record with recordGet, and repeat the change with its revision";
            case NOT_FOUND_GRAPH -> "declare the edge type with declareType, or correct the names";
            case NOT_FOUND_RECORD -> "create the record with recordPut";
            case TIMEOUT -> "raise the deadline of the configuration, or reduce the load of the server";
            case CANCELLED -> "repeat the call if its result is still needed";
            case UNIMPLEMENTED -> "use a server of the same version as the client, or newer";
            case INTERNAL -> "repeat the call; if it fails again, read the log of the server";
            default -> "read the log of the server";
        };
    }

    /** Returns the error of a connection that failed, by the texts of gRPC, Netty and the JDK. */
    private CacheError unavailable(String action, Status status) {
        StringBuilder details = new StringBuilder(status.getDescription() == null ? "" : status.getDescription());
        String innermost = details.toString();
        for (Throwable each = status.getCause(); each != null; each = each.getCause()) {
            innermost = each.getMessage() == null ? each.getClass().getSimpleName() : each.getMessage();
            details.append(' ').append(each.getClass().getSimpleName()).append(' ').append(innermost);
        }
        String text = details.toString().toLowerCase(Locale.ROOT);
        String cause;
        String remedy;
        if (has(text, "unable to resolve host", "unknownhost")) {
            cause = "the host name is unknown";
            remedy = "correct the host name, or check DNS";
        } else if (has(text, "connection refused")) {
            cause = "no server listens there";
            remedy = "start one with `gannet serve --grpc " + target.address() + "`, or correct the address";
        } else if (has(text, "not an ssl/tls record", "notsslrecord", "wrong_version_number")) {
            cause = "the server at this port does not use TLS";
            remedy = "pass Credentials.withPlaintext(), or the address of the port that uses TLS";
        } else if (has(text, "certpath", "certificate", "no subject alternative", "no name matching")) {
            cause = "the certificate of the server was not signed by a known CA, or names another host ("
                    + innermost + ")";
            remedy = "pass Credentials.withCaFile(PATH) with the CA of the server, and the host name of its "
                    + "certificate as the address";
        } else if (has(text, "alpn", "application protocol")) {
            cause = "the server at this port uses TLS, but does not speak gRPC";
            remedy = "pass the address of gannet serve --grpc, not the port of memcached, Redis or HTTP clients";
        } else if (target.isTls() && has(text, "ssl", "handshake", "closedchannel")) {
            cause = "the TLS handshake failed (" + innermost + ")";
            remedy = "check that the port uses TLS, and its certificate; for a port without TLS pass "
                    + "Credentials.withPlaintext()";
        } else if (has(text, "first received frame was not settings", "http/1", "preface", "frame length")) {
            cause = "the server at this port does not speak gRPC";
            remedy = "pass the address of `gannet serve --grpc`, not the port of memcached, Redis or HTTP clients; "
                    + "if the port uses TLS, pass Credentials.withTls()";
        } else if (has(text, "timed out", "timeout", "no route to host", "unreachable")) {
            cause = "the server does not answer (" + innermost + ")";
            remedy = "check the address, the network and the firewall, and that the server is not stopped";
        } else if (has(text, "goaway", "reset", "closed", "broken pipe", "shutdown", "end of stream")) {
            cause = "the server closed the connection";
            remedy = "repeat the call; if it fails again, check that the server runs, and that TLS is as on its port";
        } else {
            cause = innermost.isEmpty() ? "the server is unavailable" : innermost;
            remedy = REPEAT;
        }
        return new CacheError(ErrorCode.UNAVAILABLE, action, cause, remedy, status.asException());
    }

    private static boolean has(String text, String... parts) {
        for (String part : parts) {
            if (text.contains(part)) {
                return true;
            }
        }
        return false;
    }
}
