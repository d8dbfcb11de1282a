package dev.gannet.client;

import dev.gannet.v1.Permissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The settings of a signed token. It is immutable; its methods return changed copies:
 *
 * <pre>{@code TokenRequest.of(Permission.items(Permission.Role.READ_ONLY)).expiresAfter(Duration.ofHours(1))}</pre>
 *
 * @param permissions the permissions; empty for all of a user without limits
 * @param expires the time for which it is valid, in whole seconds; empty for ever
 * @param id the identity that published messages carry; empty for none
 */
public record TokenRequest(List<Permission> permissions, Optional<Duration> expires, String id) {
    /** Checks that the token is valid for at least one second. */
    public TokenRequest {
        if (expires.isPresent() && (expires.get().toSeconds() < 1 || expires.get().toSeconds() > 0xffff_ffffL)) {
            throw new IllegalArgumentException("cannot use expiry " + expires.get()
                    + ": it is out of range; pass 1 s to 4294967295 s");
        }
        permissions = List.copyOf(permissions);
    }

    /** Returns a token with these permissions. */
    public static TokenRequest of(Permission first, Permission... more) {
        List<Permission> all = new java.util.ArrayList<>(List.of(first));
        all.addAll(List.of(more));
        return new TokenRequest(all, Optional.empty(), "");
    }

    /** Returns a token with all permissions. */
    public static TokenRequest superuser() {
        return new TokenRequest(List.of(), Optional.empty(), "");
    }

    /** Returns a copy that is valid for this time. */
    public TokenRequest expiresAfter(Duration time) {
        return new TokenRequest(permissions, Optional.of(time), id);
    }

    /** Returns a copy with this identity. */
    public TokenRequest withId(String identity) {
        return new TokenRequest(permissions, expires, identity);
    }

    Permissions message() {
        Permissions.Builder message = Permissions.newBuilder();
        if (permissions.isEmpty()) {
            return message.setSuperuser(Permissions.Superuser.SUPERUSER).build();
        }
        Permissions.Explicit.Builder explicit = Permissions.Explicit.newBuilder();
        permissions.forEach(each -> explicit.addPermissions(each.message()));
        return message.setExplicit(explicit).build();
    }
}
